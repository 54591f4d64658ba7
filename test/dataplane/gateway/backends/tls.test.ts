import { writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { type Authority, createAuthority } from '../../../support/network/certificates.ts'
import { endFileOnError } from '../../../support/or-fail.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

let authority: Authority
let backend: RawServer
let url: string
let stop: () => void

test.before(async () => {
  authority = await createAuthority()
  backend = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  // Terminates TLS in front of the plain backend.
  const server = createServer(
    { key: authority.key, cert: authority.cert },
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const headers = Object.fromEntries(
        Object.entries(req.headers).filter(([name]) => name.startsWith('mcp') || name === 'content-type'),
      )
      const inner = await fetch(backend.url, {
        method: 'POST',
        headers: headers as Record<string, string>,
        body: new Uint8Array(Buffer.concat(chunks)),
      })
      res.writeHead(inner.status, { 'content-type': inner.headers.get('content-type') ?? '' }).end(await inner.text())
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `https://localhost:${(server.address() as AddressInfo).port}/mcp`
  stop = () => {
    server.closeAllConnections()
    server.close()
  }
})

test.after(async () => {
  stop()
  await backend.close()
  await authority.remove()
})

async function callThrough(config: TestConfig, prepare?: (directory: string) => Promise<void>) {
  const gateway = await startGateway(config, prepare)
  await postModern(gateway.url, 'tools/list')
  const { json } = await postModern(gateway.url, 'tools/call', { name: 'b_t' })
  await eventually('a first try', async () => (await gateway.status()).backends[0]?.health !== 'unknown')
  const status = (await gateway.status()).backends[0]
  await gateway.close()
  return { json, status }
}

test('a backend with a private CA works with its bundle', async () => {
  const { json, status } = await callThrough({ backends: [{ name: 'b', url, caBundleFile: 'ca.pem' }] }, (directory) =>
    writeFile(join(directory, 'ca.pem'), authority.ca),
  )
  assert.equal(json.result, JSON.parse(OK_RESULT))
  assert.is(status?.health, 'healthy')
})

test('without the bundle it is not trusted', async () => {
  const { json, status } = await callThrough({ backends: [{ name: 'b', url }] })
  assert.is(json.error.code, -32603)
  assert.match(status?.lastError?.message ?? '', /certificate/i)
})

test('a private address is refused if it is not allowed', async () => {
  const { json, status } = await callThrough({ backends: [{ name: 'b', url: backend.url, allowPrivateIP: false }] })
  assert.is(json.error.code, -32603)
  assert.match(status?.lastError?.message ?? '', /loopback address, which is called only under allowPrivateEndpoint/)
})

test.run()
