import { request } from 'undici'
import { boundedAgent } from '../../dataplane/net/bounded-agent.ts'
import { readWithin } from '../../operator/cluster/read-within.ts'

const TIMEOUT_MS = 2_000
/** The most bytes of an answer, because another process than ours may answer. */
const LARGEST = 4 * 1024 * 1024

interface RequestOptions {
  readonly method?: 'GET' | 'POST'
  readonly body?: object
  readonly timeoutMs?: number
  /** A token of the viewer that was issued for this server. */
  readonly token?: string | undefined
}

/** An answer with a status other than 200. */
export class AnswerError extends Error {
  override readonly name = 'AnswerError'
  readonly status: number

  constructor(status: number, message: string) {
    super(`HTTP ${status}: ${message}`)
    this.status = status
  }
}

/**
 * Requests JSON from a data plane's admin listener. Throws an Error for a status other than 200, with the answer's own
 * message if it has one.
 */
export async function readJson(
  url: string,
  { method = 'GET', body, timeoutMs = TIMEOUT_MS, token }: RequestOptions = {},
): Promise<unknown> {
  const answer = await request(url, {
    dispatcher: boundedAgent,
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    signal: AbortSignal.timeout(2 * timeoutMs),
  })
  const text = await readWithin(LARGEST, answer.body)
  if (answer.statusCode === 200) return JSON.parse(text)
  throw new AnswerError(answer.statusCode, readMessage(text))
}

function readMessage(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown }
    if (typeof message === 'string') return message
  } catch {
    // The answer is no JSON, so its text is the message.
  }
  return text.slice(0, 300)
}
