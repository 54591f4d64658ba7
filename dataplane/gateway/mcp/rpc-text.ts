import { errorTable, type PublicError } from '../../server/errors.ts'

/** The gateway's own JSON-RPC messages as text. `id` is JSON text, returned as the client wrote it. */

export const resultText = (id: string, result: string): string => `{"jsonrpc":"2.0","id":${id},"result":${result}}`

export const errorText = (id: string | undefined, error: PublicError): string =>
  `{"jsonrpc":"2.0","id":${id ?? 'null'},"error":${JSON.stringify({
    code: errorTable[error.code].rpc,
    message: error.message,
    ...(error.data === undefined ? {} : { data: error.data }),
  })}}`

export const requestText = (id: number, method: string, params: object): string =>
  `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`

/**
 * The first id of the gateway's own requests. Ids are numbers, because some servers accept nothing else, and fit into
 * 32 bits. Clients that share a session with the gateway count from a small number and don't reach it.
 */
export const FIRST_OWN_ID = 1_000_000_000

export const notificationText = (method: string, params?: object): string =>
  JSON.stringify({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) })

/** Builds a tool result that explains an error to a model. */
export const errorResult = (era: 'modern' | 'legacy', text: string, structuredContent?: unknown): string =>
  JSON.stringify({
    ...(era === 'modern' && { resultType: 'complete' }),
    content: [{ type: 'text', text }],
    structuredContent,
    isError: true,
  })
