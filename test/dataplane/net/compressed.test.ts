/** Documents that come compressed, or behind a byte order mark: of providers and of registry sources. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createGuardedFetch } from '../../../dataplane/net/guarded-fetch.ts'
import { createHttpGet } from '../../../dataplane/registry/sources/http/http-get.ts'

const TEXT = '{"issuer":"ä"}'
const bodies: Readonly<Record<string, Buffer>> = {
  gzip: gzipSync(TEXT),
  deflate: deflateSync(TEXT),
  br: brotliCompressSync(TEXT),
  zstd: zstdCompressSync(TEXT),
  identity: Buffer.from(`\ufeff${TEXT}`),
  large: gzipSync(Buffer.alloc(1_000_000, 0x20)),
  broken: Buffer.from('none'),
}
let asked: string | undefined
const server = createServer((req, res) => {
  const name = req.url?.slice(1) ?? ''
  asked = req.headers['accept-encoding'] as string
  const encoding = name === 'large' || name === 'broken' ? 'gzip' : name
  res.writeHead(200, { 'content-type': 'application/json', 'content-encoding': encoding }).end(bodies[name])
})
let base: string

test.before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
test.after(() => {
  server.closeAllConnections()
  server.close()
})

const fetched = async (name: string) => {
  const fetch = createGuardedFetch({ allowLoopback: true, maxBytes: 100_000 })
  try {
    return (await fetch(`${base}/${name}`)).text
  } finally {
    await fetch.close()
  }
}

async function got(name: string): Promise<string> {
  const { signal } = new AbortController()
  await using get = createHttpGet({ publicOnly: false, timeoutMs: 5_000, maxBytes: 100_000, signal })
  const pieces: Buffer[] = []
  await get(`${base}/${name}`, {}, (piece) => void pieces.push(piece))
  return Buffer.concat(pieces).toString()
}

for (const [what, read] of Object.entries({ 'a provider’s document': fetched, 'a source’s': got })) {
  for (const encoding of ['gzip', 'deflate', 'br', 'zstd', 'identity'])
    test(`${what} in ${encoding} is read`, async () => {
      assert.is(await read(encoding), TEXT)
      assert.is(asked, 'gzip')
    })
  test(`${what} is checked against its limits after decoding`, async () => {
    await read('large').then(
      () => assert.unreachable(),
      (error: Error) => assert.match(error.message, /100000 bytes|larger|100,000|bytes/),
    )
  })
  test(`${what} that can’t be decoded is an error`, async () => {
    await read('broken').then(
      () => assert.unreachable(),
      () => {},
    )
  })
}

test.run()
