// Keeps the page as it is on the server: on changes, at most 4 times a second, only while it is seen.
import { morph } from './morph.js'
import { said } from './chrome.js'

const url = document.body.dataset.live
const sign = document.getElementById('live')
const pause = 250
const polling = 5000
let source = null
let last = 0
let timer = 0
let busy = false
let again = false

function show (up) {
  sign.hidden = false
  const text = up ? 'live' : 'reconnecting'
  if (sign.textContent === text) return
  sign.textContent = text
  sign.classList.toggle('down', !up)
}

// soon loads the page again, not more often than the pause allows.
export function soon () {
  if (document.hidden || timer) return
  timer = setTimeout(load, Math.max(0, last + pause - Date.now()))
}

async function load () {
  timer = 0
  if (busy) {
    again = true
    return
  }
  busy = true
  last = Date.now()
  try {
    const answer = await fetch(location.href, { headers: { 'X-Part': 'main' }, signal: AbortSignal.timeout(20000) })
    if (answer.status === 401) return location.reload()
    if (answer.ok && !answer.redirected) patch(await answer.text())
  } catch { // the stream says that the server is away
  } finally {
    busy = false
    if (again) {
      again = false
      soon()
    }
  }
}

function patch (html) {
  const next = new DOMParser().parseFromString(html, 'text/html').querySelector('main')
  const main = document.querySelector('main')
  if (!next || document.querySelector('dialog[open]')) return
  const state = page => page.querySelector('.facts .state')?.textContent
  const before = state(main)
  morph(main, next)
  if (before && state(main) !== before) said(`The job is ${state(main)}`)
}

function open () {
  if (source || document.hidden) return
  source = new EventSource(url)
  source.addEventListener('open', () => { show(true); soon() })
  source.addEventListener('job', soon)
  source.addEventListener('reset', soon)
  source.addEventListener('error', () => {
    show(false)
    if (source?.readyState === EventSource.CLOSED) { // the server has refused it: try later
      close()
      setTimeout(open, polling)
    }
  })
}

function close () {
  source?.close()
  source = null
}

// A page that is not seen needs no connection: browsers have few of them for one server.
if (url && !document.querySelector('main[data-still]')) {
  document.addEventListener('visibilitychange', () => document.hidden ? close() : open())
  setInterval(() => { if (source?.readyState !== EventSource.OPEN) soon() }, polling)
  setInterval(soon, 10000) // numbers change also without jobs: workers come and go
  addEventListener('pagehide', close)
  addEventListener('pageshow', open)
  open()
}
