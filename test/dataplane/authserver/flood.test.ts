/** Checks that many logins, registrations and bodies from one network do not affect clients of others. */
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { type AuthServerUnderTest, REDIRECT, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import { stoppedClock } from '../../support/stopped-clock.ts'

let server: AuthServerUnderTest
const sockets: Socket[] = []
test.before(async () => {
  server = await startAuthServer({ gateway: { trustProxyHeaders: true, allowedHosts: ['gateway.example'] } })
})
test.after(async () => {
  for (const socket of sockets) socket.destroy()
  await server.close()
})

const fetchFrom = (address: string, url: string, more: RequestInit = {}) =>
  fetch(url, { redirect: 'manual', ...more, headers: { ...more.headers, 'x-forwarded-for': address } })
const statuses = async (answers: readonly Promise<Response>[]) => {
  const found = await Promise.all(answers)
  await Promise.all(found.map((answer) => answer.arrayBuffer()))
  return found.map(({ status }) => status)
}
const count = (found: readonly number[], status: number) => found.filter((one) => one === status).length

test('logins that others have begun continue during a flood', async () => {
  const { id } = await TestClient.register(server.issuer)
  using _clock = stoppedClock()
  const client = new TestClient(server.issuer, id)
  const url = client.authorizeUrl()
  const answers = await Promise.all(Array.from({ length: 300 }, () => fetchFrom('192.0.2.1', url)))
  const pages = await Promise.all(answers.map((answer) => answer.text()))
  const refused = answers.findIndex(({ status }) => status === 429)
  assert.is(answers.filter(({ status }) => status === 429).length, 200)
  assert.is(answers[refused]?.headers.get('retry-after'), '5')
  assert.match(pages[refused] ?? '', 'Too many logins')
  assert.is((await fetchFrom('198.51.100.1', url)).status, 200)
  assert.ok((await client.login()).access_token)
})

test('a long authorization request counts as several', async () => {
  const { id } = await TestClient.register(server.issuer)
  const url = new TestClient(server.issuer, id).authorizeUrl({ state: 's'.repeat(15_000) })
  using _clock = stoppedClock()
  const found = await statuses(Array.from({ length: 50 }, () => fetchFrom('192.0.2.2', url)))
  assert.ok(count(found, 200) >= 2 && count(found, 200) < 10, `${count(found, 200)} have begun`)
})

test('a long registration counts as several', async () => {
  const register = (address: string, uris: number) => {
    const redirects = Array.from({ length: uris }, (_, index) => `${REDIRECT}/${index}${'x'.repeat(700)}`)
    const body = JSON.stringify({ redirect_uris: redirects })
    return fetchFrom(address, `${server.issuer}/oauth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
  }
  using _clock = stoppedClock()
  const large = await statuses(Array.from({ length: 4 }, () => register('192.0.2.3', 10)))
  assert.ok(count(large, 201) >= 1 && count(large, 201) < 4, large.join())
  assert.is((await register('198.51.100.3', 1)).status, 201)
})

test('registrations from one address do not use up the memory for others', async () => {
  const gateway = { trustProxyHeaders: true, allowedHosts: ['gateway.example'] }
  const small = await startAuthServer({ gateway, memoryBytes: 128 * 1024 * 1024 })
  const redirect_uris = Array.from({ length: 2 }, (_, index) => `${REDIRECT}/${index}${'x'.repeat(850)}`)
  const register = async (address: string) => {
    const answer = await fetchFrom(address, `${small.issuer}/oauth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ redirect_uris }),
    })
    await answer.arrayBuffer()
    return answer.status
  }
  try {
    using clock = stoppedClock()
    let isFull = false
    for (let count = 0; count < 2_000 && !isFull; count++) {
      clock.pass(1_000)
      isFull = (await register('192.0.2.9')) === 503
    }
    assert.ok(isFull, 'nothing was full: the test needs more registrations')
    for (let index = 0; index < 20; index++) {
      clock.pass(1_000)
      assert.is(await register(`198.51.100.${index}`), 201)
    }
  } finally {
    await small.close()
  }
})

/** Sends all but the end of a body, one byte in each HTTP chunk. */
function trickle(address: string, path: string, type: string): Socket {
  const { hostname, port } = new URL(server.issuer)
  const socket = connect(Number(port), hostname)
  sockets.push(socket)
  socket.on('error', () => undefined)
  const head = [`POST ${path} HTTP/1.1`, `Host: ${hostname}:${port}`, `Content-Type: ${type}`]
  socket.write(`${[...head, `X-Forwarded-For: ${address}`, 'Transfer-Encoding: chunked'].join('\r\n')}\r\n\r\n`)
  socket.write('1\r\na\r\n'.repeat(30_000))
  return socket
}

for (const [path, type] of [
  ['/oauth/token', 'application/x-www-form-urlencoded'],
  ['/oauth/register', 'application/json'],
] as const)
  test(`bodies for ${path} that arrive byte by byte take at most one caller’s memory, and release it`, async () => {
    const address = '192.0.2.4'
    // Each takes 7 MiB of memory, and one caller may take 48 MiB.
    const sent = Array.from({ length: 10 }, () => trickle(address, path, type))
    const answers = new Map<Socket, string>()
    for (const socket of sent) socket.on('data', (data) => answers.set(socket, `${answers.get(socket) ?? ''}${data}`))
    await eventually('some are refused', () => answers.size >= 3)
    assert.ok(answers.size <= 6, `${answers.size} are refused, and the others waited for`)
    for (const answer of answers.values()) assert.match(answer, /^HTTP\/1\.1 429 /)
    // Other clients are served meanwhile.
    assert.is((await fetchFrom('198.51.100.4', `${server.issuer}/oauth/sessions`)).status, 200)
    for (const socket of sent) socket.destroy()
    const sendOne = () => {
      const socket = trickle(address, path, type)
      socket.write('0\r\n\r\n')
      socket.end()
      return text(socket)
    }
    await eventually('the memory is given back', async () => !(await sendOne()).startsWith('HTTP/1.1 429'))
  })

test.run()
