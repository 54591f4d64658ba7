import { isObject } from '../../../crds/settings/json.ts'
import type { Steps } from '../limits/slices.ts'
import { Elements, Members } from './json.ts'

/** Skills over MCP (SEP-2640): a server lists instructions for agents. The files of a skill are resources. */
export const SKILLS_EXTENSION = 'io.modelcontextprotocol/skills'

/** The settings of the extension as a server declares them. */
interface SkillsDeclared {
  readonly directoryRead: boolean
}

/** Reads the extension from a server's capabilities; undefined if it, or the capability `resources`, is absent. */
export function declaredSkills(capabilities: Readonly<Record<string, unknown>>): SkillsDeclared | undefined {
  const { extensions, resources } = capabilities
  const settings = isObject(extensions) ? extensions[SKILLS_EXTENSION] : undefined
  if (!isObject(settings) || !isObject(resources)) return undefined
  return { directoryRead: settings['directoryRead'] === true }
}

export const SKILL_SCHEME = 'skill://'
/** The last part of the URI of a skill's main file. */
export const MANIFEST = '/SKILL.md'

/** Tells whether a URI has the scheme of skills, in any spelling. */
export const hasSkillScheme = (uri: string): boolean => uri.length > 5 && /^\s*skill:/i.test(uri.slice(0, 64))

/** The longest URI of a skill in characters. */
const LONGEST_URI = 8192
/** Matches characters that a URL parser may drop or encode, and characters that are not part of a path. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones to refuse
const UNSAFE = /[\u0000-\u0020"#<>?\\^`{}\u007f-\u00a0]|%(?![0-9A-Fa-f]{2})/
/**
 * Matches encoded letters, digits and `-._~`, which need no encoding, and encoded slashes and NUL, which split or end a
 * path.
 */
const ENCODED_PLAIN = /%(?:4[1-9A-F]|5[0-9A]|6[1-9A-F]|7[0-9AE]|3[0-9]|2[DEF]|5C|5F|00)/i

/**
 * Tells whether a URI with the scheme `skill` has the only spelling that is served: no empty, `.` or `..` segment, no
 * needless encoding, no query, no fragment (RFC 3986, section 6.2.2). Another spelling would bypass a filter at servers
 * that decode it.
 */
export function isCanonicalSkill(uri: string): boolean {
  if (uri.length > LONGEST_URI || !uri.startsWith(SKILL_SCHEME) || UNSAFE.test(uri) || ENCODED_PLAIN.test(uri))
    return false
  if (!uri.isWellFormed()) return false
  return uri
    .slice(SKILL_SCHEME.length)
    .split('/')
    .every((segment) => segment !== '' && segment !== '.' && segment !== '..')
}

/** Matches characters with which a URI may have several spellings. */
const SPELLED_TWICE = /[^A-Za-z0-9._~/:-]/

/** Returns a key that is equal for all spellings of a URI; undefined if it has only one spelling. */
export function spellingKey(uri: string): string | undefined {
  if (!SPELLED_TWICE.test(uri)) return undefined
  return uri.replace(/(?:%[0-9A-Fa-f]{2})+/g, (run) => {
    try {
      return decodeURIComponent(run)
    } catch {
      return run.toUpperCase()
    }
  })
}

/** The most folders of a URI that are examined. */
const MOST_FOLDERS = 64

/** Returns the value in `folders` of the URI itself, or of its innermost folder that has one. */
export function innermost<T>(folders: ReadonlyMap<string, T>, uri: string): T | undefined {
  if (folders.size === 0) return undefined
  let found: T | undefined
  let at = uri.indexOf('/', uri.indexOf('://') + 3)
  for (let count = 0; at !== -1 && count < MOST_FOLDERS; count++) {
    found = folders.get(uri.slice(0, at)) ?? found
    at = uri.indexOf('/', at + 1)
  }
  return folders.get(uri) ?? found
}

/** The prefix of `_meta` keys that only the gateway adds. */
const OWN_META = 'portico.dev/'

/** An entry of a list of skills. */
interface Entry {
  /** Its URI. */
  readonly key: string
  /** JSON text. */
  readonly text: string
}

/** The texts of entries for clients, with the backends that they were made for. */
const texts = new WeakMap<Entry, { readonly backend: string; readonly uri: string; readonly text: string }>()

/** Returns the URI that a gateway's clients know for a URI with the scheme `skill`. */
const prefixedSkill = (backend: string, uri: string): string =>
  `${SKILL_SCHEME}${backend}/${uri.slice(SKILL_SCHEME.length)}`

/**
 * Returns a backend's entry as clients see it (`shownText`). The text of a skill whose URI has the scheme `skill` is
 * cached for the lifetime of the entry, because all of its files have that scheme.
 */
export function entryText(entry: Entry, backend: string, shown: (uri: string) => string): string {
  const uri = shown(entry.key)
  const known = texts.get(entry)
  if (known !== undefined && known.backend === backend && known.uri === uri) return known.text
  const text = shownText(entry.text, backend, shown)
  if (hasSkillScheme(entry.key)) texts.set(entry, { backend, uri, text })
  return text
}

/** Builds the texts of a new list in steps, so that a catalog with it is built without blocking other requests. */
export function* entryTexts(entries: readonly Entry[], backend: string): Steps<undefined> {
  const toShownUri = (uri: string) => (uri.startsWith(SKILL_SCHEME) ? prefixedSkill(backend, uri) : uri)
  for (const entry of entries) {
    entryText(entry, backend, toShownUri)
    yield
  }
  return undefined
}

/**
 * Returns a backend's entry as clients see it: with the URIs that they know and the name of the backend, and without
 * `_meta` keys that only the gateway writes. Of members with the same name the last one counts, as in JavaScript's
 * parsers.
 */
export function shownText(entry: string, backend: string, shown: (uri: string) => string): string {
  const members = lastMembers(entry)
  const edited: Readonly<Record<string, (text: string) => string>> = {
    uri: (text) => JSON.stringify(shown(JSON.parse(text) as string)),
    resources: (text) => (text.startsWith('[') ? shownFiles(text, shown) : text),
  }
  const meta = [...lastMembers(members.get('_meta') ?? '{}')].filter(([key]) => !key.startsWith(OWN_META))
  members.delete('_meta')
  const parts = [...members].map(([key, text]) => `${JSON.stringify(key)}:${edited[key]?.(text) ?? text}`)
  const own = [...meta, [`${OWN_META}backend`, JSON.stringify(backend)] as const]
  const metaText = own.map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')
  return `{${parts.join(',')},"_meta":{${metaText}}}`
}

function lastMembers(object: string): Map<string, string> {
  const found = new Map<string, string>()
  const members = new Members(object, 0)
  while (members.next()) found.set(members.key, members.value)
  return found
}

function shownFiles(list: string, shown: (uri: string) => string): string {
  const files = new Elements(list, 0)
  const texts: string[] = []
  while (files.next()) {
    const file = lastMembers(files.value)
    file.set('uri', JSON.stringify(shown(JSON.parse(file.get('uri') ?? '""') as string)))
    texts.push(`{${[...file].map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`)
  }
  return `[${texts.join(',')}]`
}
