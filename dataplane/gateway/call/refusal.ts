import { isObject } from '../../../crds/shared/json.ts'
import { memberText } from '../mcp/json.ts'

/** What an HTTP answer means whose status is not 200. */
type Refusal =
  /** The backend does not know a session that it has just opened. */
  | 'no-session'
  /** It does not speak the era that we took it for. */
  | 'other-era'
  /** A JSON-RPC error for the client, as JSON text. */
  | { readonly error: string }
  | 'failure'

/** Codes that blame the form of our request: a fault of the gateway, of no use to the client. */
const OURS: ReadonlySet<unknown> = new Set([-32020, -32022])
/** The code that servers give, with HTTP 400, for a session that they don't know. */
const NO_SESSION = -32000

/**
 * Reads an answer whose status is not 200. `era` is the one that the request was sent in; `inNewSession` tells whether
 * it named a session that was opened for it.
 */
export function refusalOf(status: number, text: string, era: 'modern' | 'legacy', inNewSession: boolean): Refusal {
  if (status < 400 || status >= 500 || status === 401 || status === 403 || status === 429) return 'failure'
  const error = errorOf(text)
  if (era === 'legacy') {
    if (inNewSession && (status === 404 || (status === 400 && error?.code === NO_SESSION))) return 'no-session'
    return error === undefined ? 'failure' : { error: error.text }
  }
  if (error === undefined || OURS.has(error.code) || error.code === NO_SESSION) return 'other-era'
  return { error: error.text }
}

function errorOf(text: string): { readonly code: unknown; readonly text: string } | undefined {
  try {
    const message: unknown = JSON.parse(text)
    if (!isObject(message) || !isObject(message['error'])) return undefined
    return { code: message['error']['code'], text: memberText(text, 'error') as string }
  } catch {
    return undefined
  }
}
