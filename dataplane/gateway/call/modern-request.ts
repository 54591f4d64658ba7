import { addParamHeaders } from '../mcp/headers.ts'
import { metaForModern, rewriteCall } from '../mcp/rewrite.ts'
import { FIRST_OWN_ID } from '../mcp/rpc-text.ts'
import type { Call } from './call.ts'
import { modernEnvelope } from './relay-rules.ts'

/** The HTTP request that asks a backend. */
export interface HttpRequest {
  readonly path: string
  readonly method: 'POST' | 'GET'
  /** A flat list. */
  readonly headers: string[]
  readonly body?: string
}

/** The id (JSON text) that a call has at a modern backend: the client's; one of ours when the backend asks for more. */
export const modernId = ({ rounds, id }: Call): string => (rounds === 0 ? id : String(FIRST_OWN_ID + rounds))

/** A call as a modern backend takes it (2026-07-28): headers repeat what routes it, `_meta` says who calls. */
export function modernRequest(call: Call): HttpRequest {
  const { message, route, backend, rounds, context } = call
  const { rename, nameHeader, paramHeaders } = route
  const headers = backend.modernHeaders(message.method)
  if (nameHeader !== '') headers.push('mcp-name', nameHeader)
  if (paramHeaders.length > 0) addParamHeaders(headers, paramHeaders, message.params?.['arguments'])
  const id = rounds === 0 ? undefined : modernId(call)
  const meta = context.era === 'modern' ? undefined : metaForModern(message, modernEnvelope(context.session))
  const edits = { id, name: rename, meta, trace: call.observed.trace }
  return { path: backend.path, method: 'POST', headers, body: rewriteCall(message, edits) }
}
