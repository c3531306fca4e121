// morph makes an element equal to another one, and keeps what its visitor has done: focus, scrolling, open details, typed text.
// What has data-keep="all" stays as it is; it is not the server's.
export function morph (from, to) {
  if (from.dataset?.keep === 'all') return
  attributes(from, to)
  children(from, to)
}

// own are attributes that a visitor changes.
const own = { DETAILS: ['open'], DIALOG: ['open'], INPUT: ['value', 'checked'], SELECT: [], OPTION: ['selected'], TR: ['class'] }

function attributes (from, to) {
  const keep = own[from.tagName] || []
  for (const { name, value } of to.attributes) {
    if (!keep.includes(name) && from.getAttribute(name) !== value) from.setAttribute(name, value)
  }
  for (const { name } of [...from.attributes]) {
    if (!keep.includes(name) && !to.hasAttribute(name)) from.removeAttribute(name)
  }
}

function children (from, to) {
  const named = new Map()
  for (const child of from.children) if (child.id) named.set(child.id, child)
  let at = from.firstChild
  for (const next of [...to.childNodes]) {
    let match = null
    if (next.id && named.has(next.id)) match = named.get(next.id)
    else if (at && same(at, next)) match = at
    if (!match) {
      from.insertBefore(document.importNode(next, true), at)
      continue
    }
    if (match === at) at = at.nextSibling
    else from.insertBefore(match, at)
    if (match.nodeType !== Node.ELEMENT_NODE) {
      if (match.nodeValue !== next.nodeValue) match.nodeValue = next.nodeValue
    } else if (!match.isEqualNode(next)) {
      morph(match, next)
    }
  }
  while (at) {
    const rest = at.nextSibling
    at.remove()
    at = rest
  }
}

function same (a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || '') === (b.id || '')
}
