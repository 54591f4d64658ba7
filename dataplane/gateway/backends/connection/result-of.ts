import { isObject } from '../../../../crds/shared/json.ts'
import { parseJson } from '../../mcp/parse.ts'
import { BackendFailure } from './failure.ts'
import type { BackendAnswer } from './request.ts'

/** The result of a JSON-RPC answer as a value. Throws a BackendFailure where it has none. */
export function resultOf({ status, text, refusal }: BackendAnswer): Record<string, unknown> {
  let message: unknown
  try {
    message = parseJson(text)
  } catch {
    throw new BackendFailure(
      'backend_failed',
      refusal === undefined
        ? `answered with HTTP ${status} and no JSON, or one that is nested too deep`
        : `answered with ${refusal.detail}`,
      { status, ...(refusal?.text === undefined ? {} : { text: refusal.text }) },
    )
  }
  if (isObject(message) && isObject(message['result'])) return message['result']
  const error = isObject(message) && isObject(message['error']) ? message['error'] : {}
  const { code } = error
  const rpcCode = typeof code === 'number' ? code : undefined
  const given = rpcCode ?? 'without a code'
  throw new BackendFailure('backend_failed', `answered with HTTP ${status}, error ${given}`, { status, rpcCode })
}
