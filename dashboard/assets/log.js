// The log of a job as it grows, from the events of the job.
const list = document.getElementById('log')
const most = 5000 // lines that are kept

if (list) {
  const find = document.getElementById('log-find')
  const follow = document.getElementById('log-follow')
  let source = null
  let fresh = true
  find.hidden = false
  find.addEventListener('input', () => { for (const line of list.children) filter(line) })
  if ('on' in list.dataset) {
    document.getElementById('log-follow-label').hidden = false
    document.addEventListener('visibilitychange', () => document.hidden ? close() : open())
    addEventListener('pagehide', close)
    list.addEventListener('wheel', event => { if (event.deltaY < 0) follow.checked = false }, { passive: true })
    open()
  }
  list.scrollTop = list.scrollHeight

  function filter (line) {
    line.classList.toggle('miss', find.value !== '' && !line.textContent.toLowerCase().includes(find.value.toLowerCase()))
  }

  function open () {
    if (source) return
    source = new EventSource(list.dataset.events)
    fresh = true // without an id to go on from, the log begins with its last lines
    source.addEventListener('log', event => add(JSON.parse(event.data).lines))
    source.addEventListener('end', close)
  }

  function close () {
    source?.close()
    source = null
  }

  function add (lines) {
    if (fresh) list.replaceChildren()
    fresh = false
    for (const { time, text } of lines) {
      const line = document.createElement('li')
      const at = document.createElement('time')
      at.dateTime = at.title = time
      at.textContent = time.slice(11, 19)
      const words = document.createElement('span')
      words.textContent = text
      line.append(at, words)
      filter(line)
      list.append(line)
    }
    while (list.children.length > most) list.firstChild.remove()
    if (follow.checked) list.scrollTop = list.scrollHeight
  }
}
