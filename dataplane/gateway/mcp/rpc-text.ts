import { errorTable, type PublicError } from '../../server/errors.ts'

/** JSON-RPC messages of our own as text. `id` is always JSON text, given back as the client wrote it. */

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
 * Ids of our own requests begin here: numbers, for servers that take nothing else, that fit into 32 bits, and that no client
 * whose session is shared with us has come to.
 */
export const FIRST_OWN_ID = 1_000_000_000

export const notificationText = (method: string, params?: object): string =>
  JSON.stringify({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) })

/** The result of a tool that says why there is none, for a model to read. */
export const errorResult = (era: 'modern' | 'legacy', text: string, structuredContent?: unknown): string =>
  JSON.stringify({
    ...(era === 'modern' && { resultType: 'complete' }),
    content: [{ type: 'text', text }],
    structuredContent,
    isError: true,
  })
