import { withoutUrlSecrets } from '../config/url-secrets.ts'
import { REDACTED, withoutCredentials } from '../server/credential-text.ts'

/** Names of members whose values are not written. */
const SECRET = /pass|token|secret|key|auth|credential|private|cookie|session|assertion|verifier|signature|requeststate/i
/** Characters of one text that are looked at for credentials, beyond what is written of it. */
const LOOK_AHEAD = 4_096

export interface Masked {
  readonly text: string
  /** Whether something was cut off. */
  readonly isCut: boolean
}

/**
 * A JSON text without the values of members that sound like secrets, without credentials and without what keys of URLs
 * stand in, cut at so many bytes of UTF-8. Linear, and it reads no further than it writes but for what it leaves out. What is
 * no JSON is masked as far as it looks like it.
 */
export function maskedJson(json: string, maxBytes: number): Masked {
  let text = ''
  let at = 0
  // A character is a byte at least.
  while (at < json.length && text.length <= maxBytes) {
    if (json[at] !== '"') {
      const quote = json.indexOf('"', at)
      const end = Math.min(quote === -1 ? json.length : quote, at + maxBytes + 1)
      text += json.slice(at, end)
      at = end
      continue
    }
    const end = endOfString(json, at)
    const colon = skipSpace(json, end)
    if (json[colon] === ':' && isSecret(json.slice(at, Math.min(end, at + LOOK_AHEAD)))) {
      text += `${json.slice(at, Math.min(end, at + LOOK_AHEAD))}:"${REDACTED}"`
      at = endOfValue(json, skipSpace(json, colon + 1))
    } else {
      text += withoutSecrets(json.slice(at, Math.min(end, at + maxBytes + LOOK_AHEAD)))
      at = end
    }
  }
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return { text, isCut: at < json.length }
  // A character that is cut in two is left out.
  const whole = bytes.subarray(0, maxBytes).toString('utf8')
  return { text: whole.endsWith('\u{fffd}') ? whole.slice(0, -1) : whole, isCut: true }
}

const withoutSecrets = (text: string): string => withoutUrlSecrets(withoutCredentials(text))

/** Whether the name of a member, as JSON text, sounds like one of a secret, however it is escaped. */
function isSecret(name: string): boolean {
  if (!name.includes('\\')) return SECRET.test(name)
  try {
    return SECRET.test(JSON.parse(name))
  } catch {
    return true
  }
}

/** The index behind a string that begins at `start`. */
function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code === 0x5c) at++
    else if (code === 0x22) return at + 1
  }
  return json.length
}

function skipSpace(json: string, start: number): number {
  let at = start
  while (at < json.length && json.charCodeAt(at) <= 0x20) at++
  return at
}

/** The index behind a value that begins at `start`. */
function endOfValue(json: string, start: number): number {
  const first = json[start]
  if (first === '"') return endOfString(json, start)
  return first === '{' || first === '[' ? endOfNested(json, start) : endOfScalar(json, start)
}

function endOfScalar(json: string, start: number): number {
  let at = start
  while (at < json.length && !',}]'.includes(json[at] as string)) at++
  return at
}

function endOfNested(json: string, start: number): number {
  let depth = 0
  let at = start
  do {
    const char = json[at]
    if (char === '"') at = endOfString(json, at) - 1
    else if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') depth--
    at++
  } while (depth > 0 && at < json.length)
  return at
}
