import { createHash, createHmac } from 'node:crypto'

/** Returns JSON with the keys of every object sorted by code units and without `undefined`: one text per value. */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const fields = value as Record<string, unknown>
  let text = ''
  for (const key of orderedKeys(fields)) {
    if (fields[key] !== undefined)
      text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonicalJson(fields[key])}`
  }
  return `{${text}}`
}

/** Returns an object's keys sorted by code units. The keys of most objects are already sorted. */
function orderedKeys(fields: object): readonly string[] {
  const keys = Object.keys(fields)
  for (let at = 1; at < keys.length; at++) if ((keys[at - 1] as string) > (keys[at] as string)) return keys.sort()
  return keys
}

export function sortedKeys<T>(value: T): T {
  if (Array.isArray(value)) return value.map(sortedKeys) as T
  if (value === null || typeof value !== 'object') return value
  const fields = value as Record<string, unknown>
  return Object.fromEntries(orderedKeys(fields).map((key) => [key, sortedKeys(fields[key])])) as T
}

/** Returns `sha256:` and the hex digest of a text's UTF-8 bytes. */
export const sha256 = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`

/** Returns a hash of a value that does not depend on the order of keys: `sha256:` over its canonical JSON. */
export const hashOf = (value: unknown): string => sha256(canonicalJson(value))

/** Returns a keyed hash of a value: HMAC-SHA256 (RFC 2104), cut to 128 bits, which differs from place to place. */
export const valueRevision = (key: Buffer, place: string, value: string | Buffer): string =>
  createHmac('sha256', key).update(`${place}\0`).update(value).digest('base64url').slice(0, 22)
