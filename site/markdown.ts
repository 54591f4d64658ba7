import { posix } from 'node:path'
import MarkdownIt, { type Token } from 'markdown-it'

export interface Heading {
  readonly level: number
  readonly text: string
  /** The anchor: the `id` in the page. */
  readonly id: string
  /** The line in the Markdown file, from 1. */
  readonly line: number
}

export interface Link {
  readonly target: string
  /** The line in the Markdown file, from 1, at which the link's paragraph begins. */
  readonly line: number
}

/** A part of a page that search finds: a heading or the first cell of a row, and the text below or beside it. */
export interface Passage {
  readonly heading: Heading
  text: string
}

export interface Article {
  readonly title: string
  readonly html: string
  readonly headings: readonly Heading[]
  readonly links: readonly Link[]
  readonly passages: readonly Passage[]
}

/** Returns the anchor that code hosts give a heading: lower case, words joined by hyphens, other characters removed. */
const formatAnchor = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, '')
    .replaceAll(' ', '-')

/** Returns the text of an inline token without its markup. */
const readText = ({ children, content }: Token): string =>
  children?.map((child) => (child.type === 'softbreak' ? ' ' : child.content)).join('') || content

const findLine = ({ map }: Token): number => (map?.[0] ?? 0) + 1

/** Returns a function that makes anchors unique in a page, as code hosts do. */
function startAnchors(): (text: string) => string {
  const used = new Map<string, number>()
  return (text) => {
    const base = formatAnchor(text)
    const count = used.get(base) ?? 0
    used.set(base, count + 1)
    return count === 0 ? base : `${base}-${count}`
  }
}

function markHeadings(tokens: readonly Token[], unique: (text: string) => string): readonly Heading[] {
  return tokens.flatMap((token, index) => {
    if (token.type !== 'heading_open') return []
    const text = readText(tokens[index + 1] as Token)
    const id = unique(text)
    token.attrSet('id', id)
    return [{ level: Number(token.tag.slice(1)), text, id, line: findLine(token) }]
  })
}

/** Gives each link its address, turns links without one into plain text, and returns them all. */
function markLinks(tokens: readonly Token[], linkTo: (target: string) => string | undefined): readonly Link[] {
  return tokens.flatMap((token) => {
    let address: string | undefined
    return (token.children ?? []).flatMap((child) => {
      if (child.type === 'link_close' && address === undefined) child.tag = 'span'
      if (child.type !== 'link_open') return []
      const target = String(child.attrGet('href') ?? '')
      address = linkTo(target)
      if (address === undefined) Object.assign(child, { tag: 'span', attrs: [['class', 'source']] })
      else child.attrSet('href', address)
      return [{ target, line: findLine(token) }]
    })
  })
}

/** Gives tables what narrow screens and keyboards need: each cell the label of its column, and a focus to scroll by. */
function markTables(tokens: readonly Token[]): void {
  let labels: string[] = []
  let column = 0
  tokens.forEach((token, index) => {
    if (token.type === 'table_open') {
      labels = []
      token.attrSet('tabindex', '0')
    } else if (token.type === 'th_open') labels.push(readText(tokens[index + 1] as Token))
    else if (token.type === 'tr_open') column = 0
    else if (token.type === 'td_open') token.attrSet('data-label', labels[column++] ?? '')
  })
}

/** Gives each row that tells of one field, reason or code an anchor, and returns what such rows say. */
function readRows(tokens: readonly Token[], unique: (text: string) => string): readonly Passage[] {
  return tokens.flatMap((token, index) => {
    const name = tokens[index + 2]?.children ?? []
    if (token.type !== 'tr_open' || name.length !== 1 || name[0]?.type !== 'code_inline') return []
    const end = tokens.findIndex(({ type }, at) => at > index && type === 'tr_close')
    const cells = tokens
      .slice(index, end)
      .filter(({ type }) => type === 'inline')
      .map(readText)
    const text = cells[0] as string
    const id = unique(text)
    token.attrSet('id', id)
    return [{ heading: { level: 7, text, id, line: findLine(token) }, text: cells.slice(1).join('\n') }]
  })
}

/** Splits a page at its headings. */
function readPassages(tokens: readonly Token[], headings: readonly Heading[]): readonly Passage[] {
  const passages = headings.map((heading) => ({ heading, text: '' }))
  let at = -1
  tokens.forEach((token, index) => {
    if (token.type === 'heading_open') at++
    const isText = token.type === 'inline' || token.type === 'fence'
    const passage = passages[at]
    if (isText && passage && tokens[index - 1]?.type !== 'heading_open') passage.text += `${readText(token)}\n`
  })
  return passages
}

/** Reads a Markdown file and renders it. `linkTo` returns the address for a link, or undefined for plain text. */
export function renderMarkdown(text: string, linkTo: (target: string) => string | undefined): Article {
  const md = new MarkdownIt({ html: false, linkify: false })
  // The note at the top of a generated page. Its lines stay, so that lines of findings are those of the file.
  const tokens = md.parse(
    text.replace(/^<!--.*?-->/su, (note) => note.replaceAll(/[^\n]/gu, '')),
    {},
  )
  const unique = startAnchors()
  const headings = markHeadings(tokens, unique)
  const links = markLinks(tokens, linkTo)
  markTables(tokens)
  const passages = [...readPassages(tokens, headings), ...readRows(tokens, unique)]
  const html = md.renderer.render(tokens, md.options, {})
  return { title: headings[0]?.text ?? '', html, headings, links, passages }
}

/** Returns the file below the root that a link of `from` names, and its anchor; undefined for another site's address. */
export function resolveLink(
  from: string,
  target: string,
): { readonly file: string; readonly anchor?: string } | undefined {
  if (/^[a-z][a-z0-9+.-]*:/iu.test(target)) return undefined
  const [path = '', anchor] = target.split('#')
  const file = path === '' ? from : posix.normalize(posix.join(posix.dirname(from), decodeURI(path)))
  return { file: file.replace(/\/$/u, ''), ...(anchor === undefined ? {} : { anchor }) }
}
