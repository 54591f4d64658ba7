// @ts-check
/** The console's script: refresh, copy, keys. It parses no HTML and evaluates nothing. */

const SVG = 'http://www.w3.org/2000/svg'
const VIEW = 'application/vnd.portico.view+json'

/**
 * A text, or `[tag, attributes, ...children]`.
 * @typedef {string | [string, Record<string, string>, ...any[]]} Tree
 */

/**
 * @param {Tree} tree
 * @param {boolean} isSvg
 * @returns {Node}
 */
function build(tree, isSvg) {
  if (typeof tree === 'string') return document.createTextNode(tree)
  const [tag, attributes, ...children] = tree
  const svg = isSvg || tag === 'svg'
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children.map((child) => build(child, svg)))
  return element
}

/** @param {Node | Tree} node */
function keyOf(node) {
  if (node instanceof Element) return node.getAttribute('data-key')
  return Array.isArray(node) ? (node[1]['data-key'] ?? null) : null
}

/**
 * @param {Node} node
 * @param {Tree} tree
 */
function isSame(node, tree) {
  if (typeof tree === 'string') return node instanceof Text
  return node instanceof Element && node.localName === tree[0].toLowerCase() && keyOf(node) === keyOf(tree)
}

/**
 * Changes an element to what the tree says. Whatever stays the same is left alone, so that focus, selection and scroll
 * position are kept.
 * @param {Element} element
 * @param {Tree} tree
 */
function patch(element, tree) {
  if (typeof tree === 'string') return
  const [, attributes, ...children] = tree
  for (const name of element.getAttributeNames())
    if (!(name in attributes) && name !== 'open' && name !== 'data-shown') element.removeAttribute(name)
  for (const [name, value] of Object.entries(attributes))
    if (element.getAttribute(name) !== value) element.setAttribute(name, value)
  if (element.hasAttribute('data-keep')) return
  if (element.getAttribute('data-rows') === 'ask' && !isAgreed(element, children)) patchKnown(element, children)
  else patchChildren(element, children)
}

/**
 * @param {Element} element
 * @returns {Map<string | null, Element>}
 */
const childrenByKey = (element) => new Map([...element.children].map((child) => [keyOf(child), child]))

/**
 * Changes a node to what the tree says, and returns it; returns undefined if it is another one.
 * @param {Node | null | undefined} node
 * @param {Tree} tree
 */
function patched(node, tree) {
  if (!node || !isSame(node, tree)) return undefined
  if (node instanceof Element) patch(node, tree)
  else if (node.nodeValue !== tree) node.nodeValue = /** @type {string} */ (tree)
  return node
}

/**
 * @param {Element} element
 * @param {Tree[]} children
 */
function patchChildren(element, children) {
  const svg = element.namespaceURI === SVG
  const byKey = childrenByKey(element)
  let at = element.firstChild
  for (const tree of children) {
    const key = keyOf(tree)
    const moved = key === null ? undefined : byKey.get(key)
    if (moved && moved !== at && isSame(moved, tree)) element.insertBefore(moved, at)
    const node = patched(moved ?? at, tree) ?? element.insertBefore(build(tree, svg), at)
    at = node.nextSibling
  }
  while (at) {
    const next = at.nextSibling
    at.remove()
    at = next
  }
}

/**
 * Changes the rows that stay, and offers those that come or go.
 * @param {Element} body
 * @param {Tree[]} rows
 */
function patchKnown(body, rows) {
  const trees = new Map(rows.map((row) => [keyOf(row), row]))
  for (const row of body.children) {
    const tree = trees.get(keyOf(row))
    if (tree !== undefined) patch(row, tree)
  }
}

/**
 * Tells whether a table has the rows of the tree. If not, a button offers them.
 * @param {Element} body
 * @param {Tree[]} rows
 */
function isAgreed(body, rows) {
  const shown = new Set([...body.children].map(keyOf))
  const wanted = new Set(rows.map(keyOf))
  const changes =
    [...shown].filter((key) => !wanted.has(key)).length + [...wanted].filter((key) => !shown.has(key)).length
  const table = body.closest('.table')
  const old = table?.previousElementSibling?.classList.contains('live') ? table.previousElementSibling : undefined
  old?.remove()
  if (changes === 0 || !table) return true
  const button = document.createElement('button')
  button.className = 'live quiet'
  button.textContent = `${changes} ${changes === 1 ? 'change' : 'changes'}, show`
  button.addEventListener('click', () => {
    button.remove()
    patchChildren(body, rows)
  })
  table.before(button)
  return false
}

/** Keeps a page fresh: one request each ten seconds, only while somebody sees it. */
class Refresh {
  /** @param {HTMLElement} main */
  constructor(main) {
    this.main = main
    this.seconds = Number(main.dataset['refresh'])
    this.etag = ''
    document.addEventListener('visibilitychange', () => this.plan(0))
    this.plan(main.querySelector('[data-pending]') ? 1 : this.seconds)
  }

  /** @param {number} seconds */
  plan(seconds) {
    clearTimeout(this.timer)
    if (document.visibilityState !== 'visible') return
    this.timer = setTimeout(() => this.ask().then((next) => this.plan(next)), seconds * 1000)
  }

  /** @returns {Promise<number>} seconds until the next request */
  async ask() {
    try {
      const headers = { accept: VIEW, ...(this.etag && { 'if-none-match': this.etag }) }
      const answer = await fetch(location.href, { headers, cache: 'no-store', redirect: 'error' })
      if (answer.status === 401 || answer.status === 403)
        return this.say('The session has ended. Reload the page to log in again.', 3600)
      if (answer.status === 429 || answer.status === 503)
        return this.say(
          'The facts below are out of date: the console can’t read new ones.',
          Number(answer.headers.get('retry-after')) || this.seconds,
        )
      if (answer.ok || answer.status === 304) this.stamp(answer.headers.get('date'))
      if (answer.status === 304 || !answer.ok) return this.seconds
      const { title, tree } = await answer.json()
      this.etag = answer.headers.get('etag') ?? ''
      this.say('', 0)
      document.title = title
      patchChildren(this.main, tree)
      return this.main.querySelector('[data-pending]') ? 1 : this.seconds
    } catch {
      return this.say('The facts below are out of date: the console does not answer.', this.seconds)
    }
  }

  /**
   * Shows the time of the facts.
   * @param {string | null} date
   */
  stamp(date) {
    const place = document.querySelector('[data-asof]')
    if (place && date) place.textContent = `As of ${new Date(date).toISOString().slice(11, 19)} UTC`
  }

  /**
   * @param {string} text
   * @param {number} next
   */
  say(text, next) {
    let line = document.querySelector('#old')
    if (!line && text !== '') {
      line = document.createElement('p')
      line.id = 'old'
      line.className = 'note warn'
      line.setAttribute('role', 'status')
      this.main.prepend(line)
    }
    if (text === '') line?.remove()
    else if (line) line.textContent = text
    return next
  }
}

/** @param {HTMLElement} button */
async function copy(button) {
  const text = button.dataset['copy'] ?? ''
  try {
    await navigator.clipboard.writeText(text)
    button.textContent = 'Copied'
  } catch {
    button.textContent = 'Select and copy'
  }
  setTimeout(() => {
    button.textContent = 'Copy'
  }, 1500)
}

document.addEventListener('click', (event) => {
  const button = event.target instanceof Element ? event.target.closest('[data-copy]') : null
  if (button instanceof HTMLElement) copy(button)
})

/** The call of a tool that runs. @type {AbortController | undefined} */
let call

/**
 * Reads lines of JSON.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{progress?: string, tree?: Tree[], error?: string}>}
 */
async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield JSON.parse(line)
  }
}

/**
 * Calls a tool from this page: its progress is shown while it runs, and the answer in place of the page.
 * @param {HTMLFormElement} form
 */
async function runCall(form) {
  call = new AbortController()
  const { signal } = call
  document.querySelector('#running')?.remove()
  const line = build(['span', {}, 'It runs.'], false)
  const stop = build(['button', { type: 'button', class: 'quiet mini' }, 'Stop'], false)
  stop.addEventListener('click', () => call?.abort())
  const place = /** @type {Element} */ (build(['div', { id: 'running', class: 'note top', role: 'status' }], false))
  place.append(line, stop)
  form.after(place)
  try {
    const body = new URLSearchParams(/** @type {any} */ (new FormData(form)))
    const answer = await fetch(form.action, { method: 'POST', headers: { accept: VIEW }, body, signal })
    if (!answer.ok || !answer.body) throw new Error((await answer.json()).message)
    for await (const { progress, tree, error } of linesOf(answer.body)) {
      if (tree) return showAnswer(tree)
      if (error) throw new Error(error)
      line.textContent = `It runs: ${progress}`
    }
    throw new Error('The console no longer answers.')
  } catch (error) {
    const said = `${/** @type {Error} */ (error).message} The call was not repeated.`
    line.textContent = signal.aborted ? 'You stopped the call. What it had done by then is not undone.' : said
    stop.remove()
  } finally {
    call = undefined
  }
}

/** @param {Tree[]} tree */
function showAnswer(tree) {
  document.querySelector('main')?.replaceChildren(...tree.map((child) => build(child, false)))
  const place =
    document.querySelector('#result') ?? document.querySelector('main [role=alert]') ?? document.querySelector('main')
  place?.scrollIntoView({ block: 'start' })
  if (place instanceof HTMLElement) place.focus({ preventScroll: true })
}

document.addEventListener('submit', (event) => {
  const { target } = event
  if (!(target instanceof HTMLFormElement) || !target.hasAttribute('data-try')) return
  event.preventDefault()
  if (!call) runCall(target)
})

/** Stops the call that runs, or the page that loads. */
function stopAll() {
  if (call) call.abort()
  else window.stop()
}

let isGoing = false
document.addEventListener('keydown', (event) => {
  const { target, key } = event
  if (event.ctrlKey || event.metaKey || event.altKey) return
  if (target instanceof HTMLElement && target.matches('input,select,textarea')) {
    if (key === 'Escape') {
      target.blur()
      stopAll()
    }
    return
  }
  if (isGoing) {
    isGoing = false
    // The links of the navigation name their keys.
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`)
    if (link instanceof HTMLElement) link.click()
    return
  }
  const act = KEYS[key]
  if (!act) return
  if (act() !== false) event.preventDefault()
})

/** @param {1 | -1} step */
function moveRow(step) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('main tbody th a, main .incident h3 a')])
  if (links.length === 0) return false
  const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement))
  links[Math.min(Math.max(at + step, 0), links.length - 1)]?.focus()
  return true
}

/** @type {Record<string, () => boolean | void>} */
const KEYS = {
  '/': () => /** @type {HTMLElement | null} */ (document.querySelector('[data-search]'))?.focus(),
  g: () => {
    isGoing = true
  },
  j: () => moveRow(1),
  k: () => moveRow(-1),
  '?': () => showKeys(),
  Escape: stopAll,
}

/** The actions of the keys. */
const HELP = [
  ['/', 'search'],
  ['g h, g w, g m, g a, g c, g u', 'home, workloads, map, access, changes, usage'],
  ['j, k, Enter', 'next row, row before, open'],
  ['?', 'these keys'],
  ['Esc', 'close, stop'],
]

function showKeys() {
  const dialog = /** @type {HTMLDialogElement} */ (
    build(
      [
        'dialog',
        { 'aria-label': 'Keys' },
        ['h2', {}, 'Keys'],
        [
          'dl',
          { class: 'facts' },
          ...HELP.flatMap(([keys, does]) => [
            ['dt', {}, ['kbd', {}, keys]],
            ['dd', {}, does],
          ]),
        ],
        ['form', { method: 'dialog' }, ['button', {}, 'Close']],
      ],
      false,
    )
  )
  dialog.addEventListener('close', () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
}

const main = document.querySelector('main[data-refresh]')
if (main instanceof HTMLElement) new Refresh(main)
