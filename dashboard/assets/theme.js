// The theme is set before anything is painted; this is no module, because those run later.
(() => {
  const theme = localStorage.getItem('theme')
  if (theme) document.documentElement.dataset.theme = theme
})()
