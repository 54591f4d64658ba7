import { isObject } from '../../../../crds/settings/json.ts'

declare global {
  interface JSON {
    isRawJSON(value: unknown): boolean
  }
}

/** Optional members of documents, wherever they stand. Null in another one may mean something to its publisher. */
const OPTIONAL: ReadonlySet<string> = new Set([
  ...['$schema', '_meta', 'title', 'description', 'websiteUrl', 'icons', 'packages', 'remotes', 'repository'],
  ...['registryType', 'registryBaseUrl', 'identifier', 'version', 'fileSha256', 'runtimeHint', 'transport'],
  ...['runtimeArguments', 'packageArguments', 'environmentVariables', 'headers', 'variables', 'url', 'type', 'name'],
  ...['isRequired', 'isSecret', 'isRepeated', 'format', 'value', 'valueHint', 'default', 'placeholder', 'choices'],
  ...['src', 'mimeType', 'sizes', 'theme', 'source', 'id', 'subfolder', 'status', 'license', 'files', 'metadata'],
])

/** A text without NUL and halves of surrogate pairs, which databases and parsers of clients don't take. */
const mendedText = (text: string): string =>
  text.isWellFormed() && !text.includes('\0') ? text : text.replaceAll('\0', '').toWellFormed()

/**
 * A document as it is meant: known members that are null are not there (programs write all that they have no value for),
 * and texts hold characters alone. Below `_meta`, where publishers have values of their own, null stays. Gives the very
 * value where there is nothing to mend. Whoever calls has bounded its depth.
 */
function mended(value: unknown, keepsNull = false): unknown {
  if (typeof value === 'string') return mendedText(value)
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value
  if (Array.isArray(value)) {
    const items = value.map((item) => mended(item, keepsNull))
    return items.some((item, index) => item !== value[index]) ? items : value
  }
  return isObject(value) ? mendedMembers(value, keepsNull) : value
}

function mendedMembers(value: Readonly<Record<string, unknown>>, keepsNull: boolean): unknown {
  const members = Object.entries(value)
  const kept: [string, unknown][] = []
  let isSame = true
  for (const [key, member] of members) {
    if (member === null && !keepsNull && OPTIONAL.has(key)) continue
    const entry: [string, unknown] = [mendedText(key), mended(member, keepsNull || key === '_meta')]
    isSame &&= entry[0] === key && entry[1] === member
    kept.push(entry)
  }
  return isSame && kept.length === members.length ? value : Object.fromEntries(kept)
}

/** The same of a whole document, whose name and version stay as they are: others would name another version. */
export function mendedDocument(document: unknown): unknown {
  const found = mended(document)
  if (found === document || !isObject(found) || !isObject(document)) return found
  const own = Object.entries(document).filter(([key]) => IDENTITY.has(key) && document[key] !== null)
  return Object.fromEntries([...Object.entries(found), ...own])
}

const IDENTITY: ReadonlySet<string> = new Set(['namespace', 'name', 'version'])

/** The same of what stands beside a document. */
export const mendedMeta = (meta: unknown): unknown => mended(meta, true)

/** Pointer (RFC 6901) of the first text with half of a surrogate pair, or of whose member has such a name. */
export function brokenText(value: unknown, pointer = ''): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : pointer
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, member] of Object.entries(value)) {
    if (!key.isWellFormed()) return pointer
    const found = brokenText(member, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`)
    if (found !== undefined) return found
  }
  return undefined
}
