import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'
import { editObject, skipString, skipValue } from '../../mcp/json.ts'
import type { RequestContext } from '../../request/exchange.ts'

const ALGORITHM = 'aes-256-gcm'
const IV_BYTES = 12
const TAG_BYTES = 16

/** Seals `text`, so that nobody else can read or change it. To open it, `bound` must be the same. */
export function seal(key: Buffer, text: string, bound: string): string {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv(ALGORITHM, key, iv).setAAD(Buffer.from(bound))
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
}

/** Opens a sealed text; undefined if it was not sealed with this key and this binding. */
export function unseal(key: Buffer, state: string, bound: string): string | undefined {
  try {
    const bytes = Buffer.from(state, 'base64url')
    const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(bound)).setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
    return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString('utf8')
  } catch {
    return undefined
  }
}

/**
 * Returns a digest of the call's params. It ignores the order of members, and members that differ from round to round.
 */
export function digestParams({ message: { text, paramsStart, paramsEnd, params } }: RequestContext): string {
  const left: Record<string, undefined> = { _meta: undefined, inputResponses: undefined, requestState: undefined }
  const args = params?.['arguments']
  // Absent arguments and empty arguments are the same.
  if (isObject(args) && Object.keys(args).length === 0) left['arguments'] = undefined
  const call = canonicalJson(editObject(text.slice(paramsStart, paramsEnd), left))
  return createHash('sha256').update(call).digest('base64url')
}

/** Returns the caller, method and name that a state is bound to. The digest adds the arguments. */
export const boundTo = ({ binding, message }: RequestContext): string =>
  JSON.stringify([binding, message.method, message.params?.['name'] ?? message.params?.['uri'] ?? ''])

/** An array or object whose end has not been reached. */
interface Open {
  /** The members of an object by name, in the order of the text; undefined in an array. */
  readonly members: (readonly [key: string, value: string])[] | undefined
  /** The elements of an array, joined. */
  elements: string
  key: string | undefined
}

/**
 * Converts JSON text (which `JSON.parse` has accepted) to one canonical form: no white space, sorted names, strings and
 * numbers as JavaScript writes them. Integers beyond its precision stay unchanged. It takes one pass in linear time,
 * except for sorting the names, and does not recurse, so nesting has no extra cost.
 */
export function canonicalJson(text: string): string {
  const value = new OpenValues()
  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === BRACE || code === BRACKET) {
      value.open(code === BRACE)
      at++
    } else if (code === BRACE_END || code === BRACKET_END) {
      value.close()
      at++
    } else if (code === QUOTE) {
      const end = skipString(text, at)
      const written = text.slice(at, end)
      value.add(unescapeText(written))
      at = end
    } else if (code <= SPACE || code === COMMA || code === COLON) at++
    else {
      const end = skipValue(text, at)
      value.add(scalar(text.slice(at, end)))
      at = end
    }
  }
  return value.whole
}

/** The arrays and objects that enclose the current position. */
class OpenValues {
  whole = ''
  readonly #open: Open[] = []

  open(isObject: boolean): void {
    this.#open.push({ members: isObject ? [] : undefined, elements: '', key: undefined })
  }

  close(): void {
    this.add(closeValue(this.#open.pop() as Open))
  }

  /** Adds a key, a member's value, an element or the whole value. */
  add(text: string): void {
    const around = this.#open.at(-1)
    if (around === undefined) this.whole = text
    else if (around.members === undefined) around.elements += around.elements === '' ? text : `,${text}`
    else if (around.key === undefined) around.key = text
    else {
      around.members.push([around.key, text])
      around.key = undefined
    }
  }
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const SPACE = 0x20
const BRACE = 0x7b
const BRACE_END = 0x7d
const BRACKET = 0x5b
const BRACKET_END = 0x5d

/** Builds the text by concatenation without copies, so that the work does not grow with the nesting. */
function closeValue({ members, elements }: Open): string {
  if (members === undefined) return `[${elements}]`
  members.sort(([a], [b]) => (a < b ? -1 : 1))
  let text = ''
  for (const [key, value] of members) text += text === '' ? `${key}:${value}` : `,${key}:${value}`
  return `{${text}}`
}

const unescapeText = (written: string): string =>
  written.includes('\\') ? JSON.stringify(JSON.parse(written)) : written

function scalar(written: string): string {
  const value = Number(written)
  if (Number.isNaN(value)) return written
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? written : String(value)
}
