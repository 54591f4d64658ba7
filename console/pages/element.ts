/**
 * Pages are trees of elements. A tree becomes HTML for a page, and JSON for its refresh. Only this file writes either,
 * so foreign texts are always escaped with invisible characters shown, and links are always checked against an
 * allow-list.
 */
export interface Element {
  readonly tag: string
  readonly attributes: Readonly<Record<string, string>>
  readonly children: readonly Node[]
  /** The HTML of an element that pages contain many times. */
  readonly html?: string
}

/** Elements that are made while the page is written, so that no long list of them is in memory. */
class Each {
  readonly count: number
  readonly make: (index: number) => Element

  constructor(count: number, make: (index: number) => Element) {
    this.count = count
    this.make = make
  }
}

type Node = Element | Each | string

export type Child = Element | Each | string | number | false | null | undefined | readonly Child[]

/** Renders each item of a list that may be long. */
export const each = <T>(items: readonly T[], render: (item: T) => Element): Each =>
  new Each(items.length, (index) => render(items[index] as T))

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>

/** The longest foreign text on a page, in UTF-16 units. */
const LONGEST = 20_000

/**
 * Matches characters that are invisible or reorder a text: controls but tab and line feed, format characters, line and
 * paragraph separators, Hangul fillers, the Braille blank, variation selectors, tags and lone surrogates.
 */
const INVISIBLE = new RegExp(
  [
    '[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\u115f\\u1160\\u17b4\\u17b5\\u2800\\u3164\\uffa0\\ud800-\\udfff]',
    '\\u034f',
    // The emoji variation selector belongs to the emoji before it.
    '(?<!\\p{Extended_Pictographic})\\ufe0f',
    '[\\ufe00-\\ufe0e]',
    '[\\u{e0100}-\\u{e01ef}]',
  ].join('|'),
  'gu',
)

/**
 * Matches texts of common characters that are visible: ASCII, Latin letters, punctuation, arrows and signs. INVISIBLE is
 * slow.
 */
const VISIBLE = /^[\t\n\x20-\x7e\u00a1-\u00ac\u00ae-\u024f\u2010-\u2027\u2030-\u205e\u2190-\u23ff\u2500-\u27bf]*$/

const formatCode = (character: string): string =>
  character === '\n' || character === '\t'
    ? character
    : `⟨U+${(character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}⟩`

/**
 * Replaces invisible characters of a text by their code points (`⟨U+202E⟩`), and cuts a text that is too long for a
 * page.
 */
export function visible(text: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${text.length} characters)` : text
  return VISIBLE.test(cut) ? cut : cut.replace(INVISIBLE, formatCode)
}

/** Attributes that are sent back or copied unchanged. They are not displayed. */
const EXACT: ReadonlySet<string> = new Set(['name', 'value', 'data-copy'])
/** Attributes that hold a link target. */
const LEADING: ReadonlySet<string> = new Set(['href', 'src', 'action', 'formaction', 'xlink:href'])
/** Matches links that open a client's dialog for adding a server. The console builds these links itself. */
const INSTALLS =
  /^(?:vscode:mcp\/install\?|cursor:\/\/anysphere\.cursor-deeplink\/mcp\/install\?|goose:\/\/extension\?)/

/** Matches the common paths: a slash, no second one behind it, then ASCII without controls and backslashes. */
const PLAIN_PATH = /^\/(?!\/)[\x20-\x5b\x5d-\x7e]*$/

/**
 * Tells whether a page may contain a link: to a path of this console, a part of the page, http(s), or a client's
 * install dialog.
 */
export function isSafeLink(target: string): boolean {
  if (/^[#?]/.test(target)) return true
  if (target.startsWith('/'))
    return PLAIN_PATH.test(target) || (!/^\/[/\\]/.test(target) && !/[\p{Cc}\\]/u.test(target))
  if (INSTALLS.test(target)) return true
  const { protocol, username } = URL.parse(target) ?? { protocol: '', username: '' }
  return /^https?:\/\//i.test(target) && (protocol === 'https:' || protocol === 'http:') && username === ''
}

/**
 * Builds an element. Attributes that are false or undefined are left out, and so are links that a page must not
 * contain. Numbers become texts, and nested lists are flattened.
 */
export function h(tag: string, attributes: Attributes = {}, ...children: readonly Child[]): Element {
  const kept: Record<string, string> = {}
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined || value === false) continue
    if (typeof value === 'number') {
      kept[name] = String(value)
      continue
    }
    const text = value === true ? '' : value
    if (LEADING.has(name) && !isSafeLink(text)) continue
    kept[name] = EXACT.has(name) ? text : visible(text)
  }
  const found: Node[] = []
  // The content of a text area is sent back, so it stays unchanged too.
  flatten(children, tag === 'textarea' ? String : visible, found)
  return { tag, attributes: kept, children: found }
}

function flatten(children: readonly Child[], shown: (text: string) => string, into: Node[]): void {
  for (const child of children) {
    if (child === false || child === null || child === undefined || child === '') continue
    if (typeof child === 'string') into.push(shown(child))
    else if (typeof child === 'number') into.push(String(child))
    else if (isList(child)) flatten(child, shown, into)
    else into.push(child)
  }
}

const isList = (child: Element | Each | readonly Child[]): child is readonly Child[] => Array.isArray(child)

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escapeText = (text: string): string =>
  /[&<>"']/.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character] as string) : text

const VOID: ReadonlySet<string> = new Set(['br', 'hr', 'img', 'input', 'link', 'meta'])

/** Converts a tree to HTML. Every text and attribute is escaped. */
export function htmlText(node: Node): string {
  if (typeof node === 'string') return escapeText(node)
  let html = ''
  if (node instanceof Each) {
    for (let index = 0; index < node.count; index++) html += htmlText(node.make(index))
    return html
  }
  if (node.html !== undefined) return node.html
  const { tag, attributes, children } = node
  html += `<${tag}`
  for (const name in attributes) html += ` ${name}="${escapeText(attributes[name] as string)}"`
  html += '>'
  if (VOID.has(tag)) return html
  // The HTML parser drops a line feed directly after these start tags.
  if ((tag === 'pre' || tag === 'textarea') && typeof children[0] === 'string') html += '\n'
  for (const child of children) html += htmlText(child)
  return `${html}</${tag}>`
}

/** Makes the HTML of an element that pages contain many times. */
export const repeated = (element: Element): Element => ({ ...element, html: htmlText(element) })

/** A tree in JSON, for the refresh of a page: a text, or `[tag, attributes, ...children]`. */
export type Tree = string | readonly [string, Readonly<Record<string, string>>, ...Tree[]]

/** Converts a tree for `JSON.stringify`. */
export const toTree = (node: Element | string): Tree =>
  typeof node === 'string' ? node : [node.tag, node.attributes, ...toTrees(node)]

/** Converts the children of an element for `JSON.stringify`. */
export const toTrees = ({ children }: Element): readonly Tree[] =>
  children.flatMap((child): readonly Tree[] =>
    child instanceof Each
      ? Array.from({ length: child.count }, (_, index) => toTree(child.make(index)))
      : [toTree(child)],
  )
