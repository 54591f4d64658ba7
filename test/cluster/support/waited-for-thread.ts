/** The thread of waited-for.ts. */
import { Agent, request as ask } from 'node:https'
import { workerData } from 'node:worker_threads'
import type { ThreadData, WaitedForAnswer, WaitedForRequest } from './waited-for.ts'

const TIMEOUT_MS = 20_000
const { port, answers } = workerData as ThreadData
const agent = new Agent({ keepAlive: true, rejectUnauthorized: false })

function answerTo({ method, url, headers, body }: WaitedForRequest): Promise<WaitedForAnswer> {
  return new Promise((resolve, reject) => {
    // Node would send the body of a DELETE without a length, and the server would take it for the next request.
    const length = { 'content-length': String(Buffer.byteLength(body ?? '')) }
    const all = { ...headers, ...(body === undefined ? {} : length) }
    const outgoing = ask(url, { method, headers: all, agent, timeout: TIMEOUT_MS }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece: string) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
    outgoing.on('timeout', () => outgoing.destroy(new Error(`nothing within ${TIMEOUT_MS} ms`)))
    // A kept-alive connection may have ended with the API server; the request was then not read.
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      if (outgoing.reusedSocket && error.code === 'ECONNRESET')
        answerTo({ method, url, headers, ...(body === undefined ? {} : { body }) }).then(resolve, reject)
      else reject(error)
    })
    outgoing.end(body)
  })
}

function tell(answer: WaitedForAnswer): void {
  port.postMessage(answer)
  Atomics.add(answers, 0, 1)
  Atomics.notify(answers, 0)
}

port.on('message', (request: WaitedForRequest) => {
  answerTo(request).then(tell, (error: Error) => tell({ failed: error.message }))
})
