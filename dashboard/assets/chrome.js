// The theme button, questions before changes, and times that go on.
const root = document.documentElement

const themes = { '': ['◐', 'system'], light: ['☀', 'light'], dark: ['☾', 'dark'] }
const button = document.getElementById('theme')

function showTheme () {
  const [sign, name] = themes[root.dataset.theme || '']
  button.textContent = sign
  button.title = `Theme: ${name}`
  button.setAttribute('aria-label', button.title)
}

button.hidden = false
showTheme()
button.addEventListener('click', () => {
  const names = Object.keys(themes)
  const next = names[(names.indexOf(root.dataset.theme || '') + 1) % names.length]
  if (next) root.dataset.theme = next
  else delete root.dataset.theme
  localStorage.setItem('theme', next)
  showTheme()
})

// A form whose button has data-sure is sent once the question was answered. Without a script the server asks.
const sure = document.getElementById('sure')
document.addEventListener('submit', event => {
  const question = event.submitter?.dataset.sure
  const form = event.target
  if (!question || form.elements.sure) return
  event.preventDefault()
  sure.querySelector('h2').textContent = question
  sure.returnValue = 'no'
  sure.showModal()
  sure.addEventListener('close', () => {
    if (sure.returnValue !== 'yes') return
    const yes = document.createElement('input')
    Object.assign(yes, { type: 'hidden', name: 'sure', value: 'yes' })
    form.append(yes)
    form.requestSubmit()
  }, { once: true })
})

// said tells those who do not see the page what has changed.
export function said (text) {
  document.getElementById('said').textContent = text
}

function about (seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`
  return `${Math.floor(seconds / 86400)} d`
}

// ago says how far a time is from now, as the server does.
export function ago (at, now = Date.now()) {
  const seconds = (now - new Date(at)) / 1000
  if (seconds < 0) return `in ${about(-seconds)}`
  return seconds < 1 ? 'now' : `${about(seconds)} ago`
}

function tick () {
  if (document.hidden) return
  for (const time of document.querySelectorAll('main time[datetime]')) {
    if (time.closest('#log')) continue
    const text = ago(time.dateTime)
    if (time.textContent !== text) time.textContent = text
  }
}
setInterval(tick, 1000)
