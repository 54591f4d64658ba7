/**
 * The pages are trees of elements. A tree becomes HTML for a page and JSON for its refresh, and only this file writes
 * either: texts of others are escaped and made visible here, and links to anywhere are held to an allow-list.
 */
export interface Element {
  readonly tag: string
  readonly attributes: Readonly<Record<string, string>>
  readonly children: readonly (Element | string)[]
}

export type Child = Element | string | number | false | null | undefined | readonly Child[]

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>

/** Longest text of others on a page, in UTF-16 units. */
const LONGEST = 20_000

/**
 * Characters that a reader does not see, or that move others: controls but tab and line feed, format characters, line
 * and paragraph separators, the fillers of Hangul, the Braille blank, variation selectors, tags and lone surrogates.
 */
const INVISIBLE = new RegExp(
  [
    '[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\u115f\\u1160\\u17b4\\u17b5\\u2800\\u3164\\uffa0\\ud800-\\udfff]',
    '\\u034f',
    // The selector of the coloured form belongs to the emoji before it.
    '(?<!\\p{Extended_Pictographic})\\ufe0f',
    '[\\ufe00-\\ufe0e]',
    '[\\u{e0100}-\\u{e01ef}]',
  ].join('|'),
  'gu',
)

const codeOf = (character: string): string =>
  character === '\n' || character === '\t'
    ? character
    : `⟨U+${(character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}⟩`

/** Shows invisible characters of a text as their code points (`⟨U+202E⟩`), and cuts what is too long for a page. */
export function visible(text: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${text.length} characters)` : text
  return cut.replace(INVISIBLE, codeOf)
}

/** Attributes that go back to the server, or into the clipboard, as they are: nobody reads them on the page. */
const EXACT: ReadonlySet<string> = new Set(['name', 'value', 'data-copy'])
/** Attributes that lead somewhere. */
const LEADING: ReadonlySet<string> = new Set(['href', 'src', 'action', 'formaction', 'xlink:href'])
/** Schemes that open a client's own dialog for adding a server. The server builds these links itself. */
const INSTALLS =
  /^(?:vscode:mcp\/install\?|cursor:\/\/anysphere\.cursor-deeplink\/mcp\/install\?|goose:\/\/extension\?)/

/** Tells whether a link may stand on a page: a path of this console, a part of the page, http(s), a client's install link. */
export function isSafeLink(target: string): boolean {
  if (/^[#?]/.test(target)) return true
  if (target.startsWith('/')) return !/^\/[/\\]/.test(target) && !/[\p{Cc}\\]/u.test(target)
  if (INSTALLS.test(target)) return true
  const { protocol, username } = URL.parse(target) ?? { protocol: '', username: '' }
  return /^https?:\/\//i.test(target) && (protocol === 'https:' || protocol === 'http:') && username === ''
}

/**
 * Builds an element. Attributes that are false or undefined are left out, and so is a link that may not stand on a page.
 * Numbers become texts; lists are joined in.
 */
export function h(tag: string, attributes: Attributes = {}, ...children: readonly Child[]): Element {
  const kept: Record<string, string> = {}
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue
    const text = value === true ? '' : String(value)
    if (LEADING.has(name) && !isSafeLink(text)) continue
    kept[name] = EXACT.has(name) ? text : visible(text)
  }
  // What stands in a field is sent as it is, too.
  return { tag, attributes: kept, children: flat(children, tag === 'textarea' ? String : visible) }
}

function flat(children: readonly Child[], shown: (text: string) => string): (Element | string)[] {
  const found: (Element | string)[] = []
  for (const child of children) {
    if (child === false || child === null || child === undefined || child === '') continue
    if (typeof child === 'string') found.push(shown(child))
    else if (typeof child === 'number') found.push(String(child))
    else if (isList(child)) found.push(...flat(child, shown))
    else found.push(child)
  }
  return found
}

const isList = (child: Element | readonly Child[]): child is readonly Child[] => Array.isArray(child)

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => ESCAPES[character] as string)

const VOID: ReadonlySet<string> = new Set(['br', 'hr', 'img', 'input', 'link', 'meta'])

/** Writes a tree as HTML, with every text and attribute escaped. */
export function htmlText(node: Element | string): string {
  const parts: string[] = []
  write(node, parts)
  return parts.join('')
}

function write(node: Element | string, parts: string[]): void {
  if (typeof node === 'string') {
    parts.push(escaped(node))
    return
  }
  parts.push('<', node.tag)
  for (const [name, value] of Object.entries(node.attributes)) parts.push(' ', name, '="', escaped(value), '"')
  parts.push('>')
  if (VOID.has(node.tag)) return
  // The parser drops a line feed behind these start tags.
  if ((node.tag === 'pre' || node.tag === 'textarea') && typeof node.children[0] === 'string') parts.push('\n')
  for (const child of node.children) write(child, parts)
  parts.push('</', node.tag, '>')
}

/** The form of a tree in JSON, for the refresh of a page: a text, or `[tag, attributes, ...children]`. */
export type Tree = string | readonly [string, Readonly<Record<string, string>>, ...Tree[]]

/** Returns a tree for `JSON.stringify`. */
export const treeOf = (node: Element | string): Tree =>
  typeof node === 'string' ? node : [node.tag, node.attributes, ...node.children.map(treeOf)]
