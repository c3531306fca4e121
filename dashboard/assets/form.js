// The form of a new job: the command beside it follows, and files are uploaded with their progress as soon as they are there.
const form = document.getElementById('new')

if (form) {
  const body = document.getElementById('body')
  const inputs = form.elements.inputs
  form.addEventListener('input', show)

  function typed (field) {
    if (field.value === '') return undefined
    if (field.dataset.type === 'string') return field.value
    try { return JSON.parse(field.value) } catch { return field.value }
  }

  function show () {
    const params = {}
    for (const field of form.querySelectorAll('[data-type]')) {
      const value = typed(field)
      if (value !== undefined) params[field.name.slice(2)] = value
    }
    const job = { kind: form.elements.kind.value }
    if (Object.keys(params).length) job.params = params
    if (form.elements.params?.value) {
      try { job.params = JSON.parse(form.elements.params.value) } catch { job.params = form.elements.params.value }
    }
    const names = inputs ? inputs.value.split('\n').map(name => name.trim()).filter(Boolean) : []
    if (names.length === 1) job.input = names[0]
    if (names.length > 1) job.inputs = names
    body.textContent = `'${JSON.stringify(job).replaceAll("'", "'\\''")}'`
  }

  const file = document.getElementById('file')
  const drop = document.getElementById('drop')
  const button = form.querySelector('button.primary')
  let running = 0

  function upload (one) {
    const line = document.createElement('div')
    const bar = document.createElement('progress')
    bar.max = 1
    line.append(`${one.name} `, bar)
    document.getElementById('uploads').append(line)
    const request = new XMLHttpRequest() // fetch does not tell how far an upload has come
    const end = text => {
      line.textContent = `${one.name}: ${text}`
      button.disabled = --running > 0
    }
    request.upload.addEventListener('progress', event => { if (event.lengthComputable) bar.value = event.loaded / event.total })
    request.addEventListener('load', () => {
      let answer = {}
      try { answer = JSON.parse(request.responseText) } catch {}
      if (request.status !== 201) return end(answer.error?.message || `not stored: status ${request.status}`)
      inputs.value = file.multiple ? `${inputs.value.trim()}\n${answer.input}`.trim() : answer.input
      end('stored')
      show()
    })
    request.addEventListener('error', () => end('not stored: the server cannot be reached'))
    request.open('POST', `/api/v1/${form.dataset.scope}/inputs?name=${encodeURIComponent(one.name.slice(-128))}`)
    request.setRequestHeader('Content-Type', 'application/octet-stream')
    running++
    button.disabled = true
    request.send(one)
  }

  if (file) {
    file.addEventListener('change', () => {
      for (const one of file.files) upload(one)
      file.value = ''
    })
    for (const name of ['dragenter', 'dragover', 'dragleave', 'drop']) {
      drop.addEventListener(name, event => {
        event.preventDefault()
        drop.classList.toggle('over', name === 'dragenter' || name === 'dragover')
        if (name === 'drop') for (const one of event.dataTransfer.files) upload(one)
      })
    }
  }
}
