/** Tests the webhook's listener: which clients it accepts, and its limits on size, speed and number of requests. */
import { Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { admissionApp } from '../../../cli/operator/admission.ts'
import { type Listener, listen } from '../../../dataplane/server/listen/listen.ts'
import { issue } from '../../../operator/runtime/admission/issue.ts'
import { eventually } from '../../support/eventually.ts'
import { recordLog } from '../../support/kept-log.ts'

const PATH = `/validate/${'ab'.repeat(32)}`
const tls = () => {
  const { certificate, ...rest } = issue('localhost', { from: new Date(0), until: new Date(Date.now() + 86_400_000) })
  return { ...rest, cert: certificate }
}
const first = tls()
const { log, text: logged } = recordLog()
let waiting: (() => void)[] = []
let requests = 0
const reviewer = {
  async review(request: unknown) {
    const body = request as { fails?: boolean; waits?: boolean; none?: boolean }
    requests++
    if (body.fails) throw new Error('a fault of ours')
    if (body.waits) await new Promise<void>((resolve) => waiting.push(resolve))
    return body.none
      ? undefined
      : ({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: {} } as never)
  },
}
let listener: Listener

test.before(async () => {
  const app = admissionApp(reviewer, () => PATH, log)
  listener = await listen(app.fetch, '127.0.0.1:0', { tls: first })
})
test.after(() => listener.close(1_000))

interface Answer {
  readonly status: number
  readonly body: string
}

const ask = (path: string, body: string, method = 'POST', ca = first.ca) =>
  new Promise<Answer>((resolve, reject) => {
    const options = { port: listener.port, path, method, ca, servername: 'localhost', agent: false }
    const sent = request({ host: '127.0.0.1', ...options }, (response) => {
      text(response).then((answer) => resolve({ status: response.statusCode ?? 0, body: answer }), reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })

test('a review is answered only by POST at its path; elsewhere no body is read', async () => {
  assert.match(listener.url, /^https:/)
  assert.is((await ask(PATH, '{}')).status, 200)
  requests = 0
  for (const path of ['/', '/validate', `${PATH}x`, `${PATH}/`, `${PATH.slice(0, -1)}0`, `/${'x'.repeat(9_000)}`])
    assert.equal(await ask(path, '{}'), { status: 404, body: '{"error":"not_found","message":"Not found."}' })
  for (const method of ['GET', 'PUT', 'DELETE']) assert.is((await ask(PATH, '', method)).status, 405)
  assert.is(requests, 0)
})

test('other bodies than reviews are refused, and our own faults go only to the log', async () => {
  assert.is((await ask(PATH, '{"none":true}')).status, 400)
  for (const body of ['', '{', '\u0000', '{"a":1}x']) assert.is((await ask(PATH, body)).status, 400)
  const failed = await ask(PATH, '{"fails":true}')
  assert.is(failed.status, 500)
  assert.not.match(failed.body, 'fault')
  assert.match(logged(), 'a fault of ours')
  assert.not.match(logged(), PATH)
})

test('a body has at most three megabytes, with or without Content-Length', async () => {
  const most = 3 * 1024 * 1024
  assert.is((await ask(PATH, `{}${' '.repeat(most - 2)}`)).status, 200)
  assert.is((await ask(PATH, `{}${' '.repeat(most - 1)}`)).status, 413)
})

test('sixteen reviews run at a time, and further ones are refused', async () => {
  const pending = Array.from({ length: 16 }, () => ask(PATH, '{"waits":true}'))
  await eventually('all are held', () => waiting.length === 16)
  assert.is((await ask(PATH, '{}')).status, 429)
  for (const go of waiting) go()
  waiting = []
  assert.ok((await Promise.all(pending)).every(({ status }) => status === 200))
  assert.is((await ask(PATH, '{}')).status, 200)
})

test('a client that is slow with the handshake, the headers or the body is cut off', async () => {
  const limits = { headersTimeoutMs: 500, requestTimeoutMs: 1_000 }
  const impatient = await listen(() => new Response(''), '127.0.0.1:0', { tls: first, ...limits })
  const open = () => connect({ host: '127.0.0.1', port: impatient.port, ca: first.ca, servername: 'localhost' })
  const { connect: plain } = await import('node:net')
  const silent = plain(impatient.port, '127.0.0.1')
  const sockets = [silent, open(), open()] as const
  for (const socket of sockets) socket.on('error', () => {}).resume()
  sockets[1].write(`POST ${PATH} HTTP/1.1\r\nhost: localhost\r\n`)
  sockets[2].write(`POST ${PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{`)
  // `once` would reject with the reset by which a socket may end.
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve))))
  await impatient.close()
})

test('another certificate is served to new connections', async () => {
  const next = tls()
  listener.setCertificate(next)
  assert.is((await ask(PATH, '{}', 'POST', next.ca)).status, 200)
  const refused = await ask(PATH, '{}').catch(({ code }) => code)
  assert.match(String(refused), /SIGNATURE|ISSUER|SELF_SIGNED/)
})

test('the listener asks an API server with an open connection to close it before it ends', async () => {
  const app = admissionApp(reviewer, () => PATH, log)
  const ending = await listen(app.fetch, '127.0.0.1:0', { tls: first })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const review = () =>
    new Promise<string | undefined>((resolve, reject) => {
      const options = { port: ending.port, path: PATH, method: 'POST', ca: first.ca, servername: 'localhost', agent }
      const sent = request({ host: '127.0.0.1', ...options }, (response) => {
        response.resume().once('end', () => resolve(response.headers.connection))
      })
      sent.on('error', reject)
      sent.end('{}')
    })
  assert.is(await review(), 'keep-alive')
  const ended = ending.close({ noticeMs: 200, idleMs: 30_000, graceMs: 60_000 })
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.is(await review(), 'close')
  await ended
  agent.destroy()
})

test('a listener without TLS has no certificate to change', async () => {
  const plain = await listen(() => new Response(''), '127.0.0.1:0')
  assert.throws(() => plain.setCertificate(first), /no TLS/)
  await plain.close()
})

test.run()
