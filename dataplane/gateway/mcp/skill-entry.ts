import type { Steps } from '../limits/turns.ts'
import { Elements, Members } from './json.ts'
import { hasSkillScheme, SKILL_SCHEME } from './skills.ts'

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
export const prefixedSkill = (backend: string, uri: string): string =>
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
  const shown = (uri: string) => (uri.startsWith(SKILL_SCHEME) ? prefixedSkill(backend, uri) : uri)
  for (const entry of entries) {
    entryText(entry, backend, shown)
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
