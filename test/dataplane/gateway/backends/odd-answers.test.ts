/** Answers that official clients read, and answers that are none: lists and calls by the same rules. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, textOf } from '../../../support/gateway/clients.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServerOptions, startRawServer } from '../../../support/servers/raw-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function behind(era: 'legacy' | 'modern', before: NonNullable<RawServerOptions['before']>) {
  const server = await startRawServer({
    era,
    call: (request) => answer(request, `{"resultType":"complete",${OK_RESULT.slice(1)}`),
    before,
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  return { server, gateway }
}

type Edit = (status: number, headers: Record<string, string | string[]>, body: string) => Parameters<Edit>
/** Changes whatever the server answers. */
function edited(res: ServerResponse, edit: Edit): void {
  const writeHead = res.writeHead.bind(res)
  const end = res.end.bind(res)
  let head: [number, Record<string, string | string[]>] = [200, {}]
  res.writeHead = ((status: number, headers: Record<string, string | string[]> = {}) => {
    head = [status, headers]
    return res
  }) as typeof res.writeHead
  res.end = ((body = '') => {
    const [status, headers, text] = edit(...head, String(body))
    writeHead(status, headers)
    return end(text)
  }) as typeof res.end
}

const MARK = '\ufeff'
const tolerated: Readonly<Record<string, Edit>> = {
  '201 for 200': (status, headers, body) => [status === 200 ? 201 : status, headers, body],
  'a byte order mark before JSON': (status, headers, body) => [status, headers, body === '' ? '' : MARK + body],
  'an array of one': (status, headers, body) => [status, headers, body.startsWith('{') ? ` [ ${body} ] ` : body],
  'a byte order mark before events': (status, headers, body) =>
    status !== 200 || body === ''
      ? [status, headers, body]
      : [status, { ...headers, 'content-type': 'text/event-stream' }, `${MARK}data: ${body}\n\n`],
}
for (const [what, edit] of Object.entries(tolerated))
  for (const era of ['legacy', 'modern'] as const)
    test(`${era}: ${what} is read, in lists and calls`, async () => {
      const { gateway } = await behind(era, (_request, res) => {
        edited(res, edit)
        return false
      })
      const { client: one } = await connectV1(gateway.url)
      const { client: two } = await connect(gateway.url, 'modern')
      cleanups.push(
        () => one.close(),
        () => two.close(),
      )
      for (const client of [one, two]) {
        assert.is((await client.listTools()).tools.length, 1)
        assert.is(textOf(await client.callTool({ name: 't', arguments: {} })), 'ok')
      }
    })

for (const status of [307, 308])
  test(`a redirect within the origin (${status}) is followed`, async () => {
    const { gateway, server } = await behind('legacy', (request, res) => {
      if (request.path === '/mcp/') return false
      res.writeHead(status, { location: '/mcp/' }).end('moved')
      return true
    })
    const { client } = await connectV1(gateway.url)
    cleanups.push(() => client.close())
    assert.is(textOf(await client.callTool({ name: 't', arguments: {} })), 'ok')
    assert.is(server.calls('tools/call').length, 1)
  })

const refused: Readonly<Record<string, readonly [edit: Edit, told: RegExp]>> = {
  'no Content-Type': [(status, _headers, body) => [status, {}, body], /no Content-Type/],
  'a doubled one': [
    (status, headers, body) => [status, { ...headers, 'content-type': ['application/json', 'application/json'] }, body],
    /Content-Type/,
  ],
  'a foreign one': [
    (status, headers, body) => [status, { ...headers, 'content-type': 'text/plain' }, body],
    /text\/plain/,
  ],
}
for (const [what, [edit, told]] of Object.entries(refused))
  test(`${what} is refused in lists and calls alike`, async () => {
    let isOdd = true
    const { gateway } = await behind('legacy', (_request, res) => {
      if (isOdd) edited(res, edit)
      return false
    })
    await eventually('the reason', async () =>
      told.test((await gateway.status()).backends[0]?.lastError?.message ?? ''),
    )
    isOdd = false
    await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
    const session = await openSession(gateway.url)
    const call = () => post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }), session)
    assert.ok((await call()).json.result)
    isOdd = true
    assert.ok((await call()).json.error)
  })

const causes: Readonly<Record<string, readonly [edit: Edit, told: RegExp, heard: RegExp]>> = {
  '404': [
    () => [404, { 'content-type': 'text/plain' }, 'nothing here'],
    /HTTP 404.*text\/plain.*nothing here/,
    /HTTP 404/,
  ],
  '502': [() => [502, { 'content-type': 'text/html' }, '<h1>Bad Gateway'], /HTTP 502.*Bad Gateway/, /HTTP 502/],
  'a login page': [() => [200, { 'content-type': 'text/html' }, '<html>Log in'], /text\/html.*Log in/, /web page/],
  'a redirect elsewhere': [
    () => [302, { location: 'https://login.example/x?secret=1' }, ''],
    /HTTP 302, Location https:\/\/login\.example\/x$/,
    /redirects elsewhere/,
  ],
}
for (const [what, [edit, told, heard]] of Object.entries(causes))
  test(`${what} is told as such, on /status and to callers`, async () => {
    let isOdd = false
    const { gateway } = await behind('legacy', (_request, res) => {
      if (isOdd) edited(res, edit)
      return false
    })
    await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
    const session = await openSession(gateway.url)
    const call = () => post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }), session)
    await call()
    isOdd = true
    assert.match((await call()).json.error?.message as string, heard)
    assert.match((await gateway.status()).backends[0]?.lastError?.message ?? '', told)
  })

test.run()
