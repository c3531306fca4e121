// What pages do beyond being read. All of them also work without this.
import './chrome.js'
import './keys.js'
import './live.js'
import './log.js'
import './form.js'
