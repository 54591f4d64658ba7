import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Manifest, ManifestFinding } from '../../operator/cluster/files/index.ts'
import { digestText, LISTS, type ListName, listDigests, type Pinned, type PinSpec, readPinned } from './pinned.ts'
import { describeExternalReferences, escapeHidden, makePrintable } from './suspicious-text.ts'

// The texts of approved definitions beside an MCPPin, for reviewers: `NAME.yaml` holds the digests, and the folder
// `NAME/` the texts.

interface TextFile {
  readonly path: string
  readonly content: string
}

const LONGEST = 120
const shortHash = (text: string, length: number) => createHash('sha256').update(text).digest('hex').slice(0, length)

/** Returns a name as a file's name: letters, digits, `.`, `_`, `-`, and all else as `%` and hexadecimal digits. */
export function fileName(name: string): string {
  const plain = [...Buffer.from(name)]
    .map((byte, index) => {
      const character = String.fromCharCode(byte)
      const isPlain = /[A-Za-z0-9._-]/.test(character) && !(index === 0 && character === '.')
      return isPlain ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    })
    .join('')
  return plain.length > LONGEST ? `${plain.slice(0, LONGEST)}~${shortHash(name, 8)}` : plain
}

/** Names whose files differ in nothing but case get a hash, because some file systems take them for one. */
function formatFileNames(names: readonly string[]): ReadonlyMap<string, string> {
  const byCase = Map.groupBy(names, (name) => fileName(name).toLowerCase())
  return new Map(
    names.map((name) => {
      const same = byCase.get(fileName(name).toLowerCase()) ?? []
      return [name, same.length > 1 ? `${fileName(name)}~${shortHash(name, 8)}` : fileName(name)]
    }),
  )
}

/** A member that makes Kubernetes tools take a JSON file for a manifest: its name is written so that they refuse it. */
const AS_MANIFEST = /^( {2}")(apiVersion|kind)(":)/gm

/** Writes a definition's JSON text for reviewers. The digest stays the same: it ignores white space and escapes. */
export function prettyDefinition(text: string): string {
  const pretty = JSON.stringify(JSON.parse(text), null, 2)
  const safe = pretty.replace(
    AS_MANIFEST,
    (_, before: string, [first = '', ...rest]: string, after: string) =>
      `${before}\\u{${first.charCodeAt(0).toString(16)}}${rest.join('')}${after}`,
  )
  return `${escapeHidden(safe)}\n`
}

/** Writes instructions for reviewers. A backslash that would read as an escape is itself escaped. */
const formatInstructions = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: controls are what is escaped
  `${escapeHidden(text.replaceAll('\\u{', '\\u{5c}u{')).replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (one) => `\\u{${one.charCodeAt(0).toString(16)}}`)}\n`

const character = (hex: string): string => {
  const code = Number.parseInt(hex, 16)
  return code <= 0x10ffff ? String.fromCodePoint(code) : ''
}

/** Reads `\u{…}` of a JSON text back. After an escaped backslash it is no escape. */
const parseDefinition = (content: string): string =>
  content.replace(/\\(?:u\{([0-9a-f]{1,6})\}|.)/gis, (whole, hex: string | undefined) =>
    hex === undefined ? whole : JSON.stringify(character(hex)).slice(1, -1),
  )

const parseInstructions = (content: string): string =>
  content.replace(/\n$/, '').replace(/\\u\{([0-9a-f]{1,6})\}/gi, (_, hex: string) => character(hex))

/** Returns the digest of the text in a file; undefined if it has none. */
export const digestFile = (list: ListName, content: string): string | undefined =>
  digestText(list, plainText(list, content))

/** Returns the text in a file as the server sent it, but for white space. */
export const plainText = (list: ListName, content: string): string =>
  list === 'instructions' ? parseInstructions(content) : parseDefinition(content)

/**
 * Returns the files for a server's pins. The last digest of a name has the plain name, so that a change shows as a
 * change of that file; older ones have the digest in theirs. `texts`: by digest, list and name.
 */
export function listTextFiles(pinned: Pinned, texts: ReadonlyMap<string, string>): readonly TextFile[] {
  return LISTS.flatMap((list) => {
    const names = formatFileNames([...pinned[list].keys()])
    const extension = list === 'instructions' ? 'txt' : 'json'
    return [...pinned[list]].flatMap(([name, digests]) => {
      const base = list === 'instructions' ? 'instructions' : `${list}/${names.get(name)}`
      return digests.flatMap((digest, index) => {
        const text = texts.get(formatTextKey(list, name, digest))
        const variant = index === digests.length - 1 ? '' : `~${digest.slice(PREFIX, PREFIX + 12)}`
        return text === undefined ? [] : [{ path: `${base}${variant}.${extension}`, content: pretty(list, text) }]
      })
    })
  })
}

const PREFIX = 'sha256:'.length

const pretty = (list: ListName, text: string) =>
  list === 'instructions' ? formatInstructions(text) : prettyDefinition(text)

export const formatTextKey = (list: ListName, name: string, digest: string): string =>
  JSON.stringify([list, name, digest])

/** A text file as it is on disk. */
interface FoundText extends TextFile {
  readonly list: ListName
  readonly digest: string | undefined
}

const LARGEST = 16 * 1024 * 1024

/** Reads all text files of a folder; none if there is no such folder. */
export function readTexts(folder: string): readonly FoundText[] {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return []
  const read = (list: ListName, path: string): readonly FoundText[] => {
    const file = join(folder, path)
    if (!statSync(file).isFile() || statSync(file).size > LARGEST) return []
    const content = readFileSync(file, 'utf8')
    return [{ list, path, content, digest: digestFile(list, content) }]
  }
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      if (entry.isFile() && /^instructions(~[0-9a-f]+)?\.txt$/.test(entry.name)) return read('instructions', entry.name)
      const list = LISTS.find((one) => one === entry.name && one !== 'instructions')
      if (list === undefined || !entry.isDirectory()) return []
      return readdirSync(join(folder, entry.name))
        .filter((name) => name.endsWith('.json'))
        .sort()
        .flatMap((name) => read(list, join(entry.name, name)))
    })
}

const MOST = 100

/**
 * Compares the texts beside MCPPins with their digests: a text without a digest was edited or not approved, a digest
 * without a text was not reviewed. Also names texts that refer to anything outside.
 */
export function pinTextFindings(manifests: readonly Manifest[]): readonly ManifestFinding[] {
  return manifests.filter(({ id }) => id.kind === 'MCPPin').flatMap(compareTexts)
}

/** Tells what a text refers to outside of itself. A text without a digest may be no JSON. */
const findOutside = ({ list, digest, content }: ReturnType<typeof readTexts>[number]): string | undefined =>
  digest === undefined ? undefined : describeExternalReferences(list, plainText(list, content))

function compareTexts({ object, id, file, findLine }: Manifest): readonly ManifestFinding[] {
  const folder = file.replace(/\.[^./\\]+$/, '')
  const texts = readTexts(folder)
  if (texts.length === 0) return []
  const pinned = readPinned(object['spec'] as PinSpec)
  const found: ManifestFinding[] = texts.flatMap((text) => {
    const message = findOutside(text)
    if (message === undefined) return []
    return [
      { severity: 'warning', reason: 'ExternalReference', message, file: join(folder, text.path), line: 1, object: id },
    ]
  })
  const unread = new Map(listDigests(pinned).map((one) => [`${one.list} ${one.digest}`, one]))
  const approved = new Set(unread.keys())
  for (const { list, path, digest } of texts) {
    if (digest !== undefined && approved.has(`${list} ${digest}`)) {
      unread.delete(`${list} ${digest}`)
      continue
    }
    const message = `the text is not the one that MCPPin ${id.namespace}/${id.name} approves: no digest there is its own`
    found.push({ severity: 'error', reason: 'PinTextDiffers', message, file: join(folder, path), line: 1, object: id })
  }
  for (const { list, name } of unread.values()) {
    const message = `${list}${name === '' ? '' : ` ${JSON.stringify(makePrintable(name))}`}: no file beside it has the approved text`
    found.push({ severity: 'warning', reason: 'PinTextMissing', message, file, line: findLine('/spec'), object: id })
  }
  return found.slice(0, MOST)
}
