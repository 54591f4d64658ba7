import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'
import { canonicalJson } from '../../mcp/canonical-json.ts'
import { editObject } from '../../mcp/json.ts'
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
