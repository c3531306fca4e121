// Keys: / g j k Enter c r ?
const pages = { n: '/', j: '/jobs', w: '/workers', k: '/kinds', f: '/failed', s: '/system' }
const help = document.getElementById('keys')
const helpButton = document.getElementById('help')
let going = 0 // until when a letter after g is a page

if (helpButton) {
  helpButton.hidden = false
  helpButton.addEventListener('click', () => help.showModal())
}

function rows () {
  return [...document.querySelectorAll('main tr[data-row]')].filter(row => row.offsetParent)
}

// move goes to another row, and shows where that is.
function move (by) {
  const all = rows()
  if (!all.length) return
  const at = all.findIndex(row => row.classList.contains('here'))
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))]
  for (const row of all) row.classList.toggle('here', row === next)
  const link = next.querySelector('a')
  if (link) link.focus({ preventScroll: true })
  next.scrollIntoView({ block: 'nearest' })
}

const single = {
  '/': () => document.getElementById('find')?.focus(),
  '?': () => help.showModal(),
  j: () => move(1),
  k: () => move(-1),
  Enter: () => document.querySelector('tr.here a')?.click(),
  c: () => document.getElementById('cancel')?.click(),
  r: () => document.getElementById('retry')?.click(),
  g: () => { going = Date.now() + 1500 }
}

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector('dialog[open]')) return
  if (event.key === 'Escape') return document.activeElement?.blur()
  if (event.target.closest('input:not([type=radio],[type=checkbox]),textarea,select') || event.key === 'Enter' && event.target.closest('a,button,summary')) return
  if (Date.now() < going && pages[event.key]) {
    event.preventDefault()
    location.assign(pages[event.key])
    return
  }
  going = 0
  if (!single[event.key]) return
  event.preventDefault()
  single[event.key]()
})
