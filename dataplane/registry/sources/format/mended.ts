import { isObject } from '../../../../crds/settings/json.ts'

declare global {
  interface JSON {
    isRawJSON(value: unknown): boolean
  }
}

/** The optional members of documents, at any depth. Null in another member may mean something to its publisher. */
const OPTIONAL: ReadonlySet<string> = new Set([
  ...['$schema', '_meta', 'title', 'description', 'websiteUrl', 'icons', 'packages', 'remotes', 'repository'],
  ...['registryType', 'registryBaseUrl', 'identifier', 'version', 'fileSha256', 'runtimeHint', 'transport'],
  ...['runtimeArguments', 'packageArguments', 'environmentVariables', 'headers', 'variables', 'url', 'type', 'name'],
  ...['isRequired', 'isSecret', 'isRepeated', 'format', 'value', 'valueHint', 'default', 'placeholder', 'choices'],
  ...['src', 'mimeType', 'sizes', 'theme', 'source', 'id', 'subfolder', 'status', 'license', 'files', 'metadata'],
])

/** Removes NUL and halves of surrogate pairs, which databases and parsers of clients refuse. */
const mendedText = (text: string): string =>
  text.isWellFormed() && !text.includes('\0') ? text : text.replaceAll('\0', '').toWellFormed()

/**
 * Repairs a document: removes known members and list elements that are null, and invalid characters. Below `_meta` null
 * stays. Returns the same value if there is nothing to repair. The caller has bounded its depth.
 */
function mended(value: unknown, keepsNull = false): unknown {
  if (typeof value === 'string') return mendedText(value)
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value
  if (Array.isArray(value)) {
    const items = value.filter((item) => item !== null || keepsNull).map((item) => mended(item, keepsNull))
    return items.length < value.length || items.some((item, index) => item !== value[index]) ? items : value
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

/** Repairs a whole document. Its name and version stay, since others would name another version. */
export function mendedDocument(document: unknown): unknown {
  const found = mended(document)
  if (found === document || !isObject(found) || !isObject(document)) return found
  const own = Object.entries(document).filter(([key]) => IDENTITY.has(key) && document[key] !== null)
  return Object.fromEntries([...Object.entries(found), ...own])
}

const IDENTITY: ReadonlySet<string> = new Set(['namespace', 'name', 'version'])

export const mendedMeta = (meta: unknown): unknown => mended(meta, true)

/** Returns the pointer (RFC 6901) of the first text, or member name, with half of a surrogate pair. */
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
