import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import type { KubeConfig } from '@kubernetes/client-node'
import { ApiError } from './api-server.ts'

const TIMEOUT_MS = 10_000
const GONE = 404

interface Opened {
  readonly request: ClientRequest
  readonly answered: Promise<number>
  /** Settles once the API server asks for the body: by then it has authenticated and authorized the caller. */
  readonly admitted: Promise<undefined>
}

/**
 * Sends one strategic merge patch to several objects, and has all of them admitted before any is changed: the headers
 * go first, with `Expect: 100-continue` (RFC 9110, 10.1.1). So a client can change the objects that grant its rights.
 * Objects that are gone are left out. Throws, with nothing changed, if one is not admitted; and if a change fails.
 */
export async function patchTogether(config: KubeConfig, paths: readonly string[], patch: unknown): Promise<void> {
  const body = JSON.stringify(patch)
  const opened = await Promise.all(paths.map((path) => open(config, path, Buffer.byteLength(body))))
  try {
    const early = await Promise.all(opened.map(({ admitted, answered }) => Promise.race([admitted, answered])))
    assertDone(paths, early)
    const ready = opened.filter((_, index) => early[index] === undefined)
    for (const { request } of ready) request.end(body)
    const statuses = await Promise.all(opened.map(({ answered }) => answered))
    assertDone(paths, statuses)
  } finally {
    for (const { request } of opened) request.destroy()
  }
}

/** Throws an ApiError for the first answer that is neither a success nor "not found". */
function assertDone(paths: readonly string[], statuses: readonly (number | undefined)[]): void {
  for (const [index, status = 200] of statuses.entries()) {
    if (status >= 300 && status !== GONE)
      throw new ApiError(status, `HTTP ${status}`, `${paths[index]}: HTTP ${status}`)
  }
}

async function open(config: KubeConfig, path: string, length: number): Promise<Opened> {
  const url = new URL((config.getCurrentCluster()?.server ?? '').replace(/\/$/, '') + path)
  const options: RequestOptions = {}
  await config.applyToHTTPSOptions(options)
  const request = (url.protocol === 'http:' ? httpRequest : httpsRequest)(url, {
    ...options,
    method: 'PATCH',
    signal: AbortSignal.timeout(TIMEOUT_MS),
    headers: {
      ...options.headers,
      accept: 'application/json',
      'content-type': 'application/strategic-merge-patch+json',
      'content-length': length,
      expect: '100-continue',
    },
  })
  const admitted = new Promise<undefined>((resolve) => request.once('continue', () => resolve(undefined)))
  const answered = new Promise<number>((resolve, reject) => {
    request.once('error', reject)
    request.once('response', (response: IncomingMessage) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
  })
  answered.catch(() => {
    // The caller gets the error. Once one request has failed, nobody waits for the others.
  })
  request.flushHeaders()
  return { request, answered, admitted }
}
