/** Tests compressed documents and those with a byte order mark, of providers and of registry sources. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { decoderFor } from '../../../dataplane/net/body-decoder.ts'
import { createGuardedFetch } from '../../../dataplane/net/guarded-fetch.ts'
import { createHttpGet } from '../../../dataplane/registry/sources/http/http-get.ts'
import { Budget } from '../../../dataplane/server/budget.ts'
import { eventually } from '../../support/eventually.ts'

const TEXT = '{"issuer":"ä"}'
const bodies: Readonly<Record<string, Buffer>> = {
  gzip: gzipSync(TEXT),
  deflate: deflateSync(TEXT),
  br: brotliCompressSync(TEXT),
  zstd: zstdCompressSync(TEXT),
  identity: Buffer.from(`\ufeff${TEXT}`),
  large: gzipSync(Buffer.alloc(1_000_000, 0x20)),
  broken: Buffer.from('none'),
  // A frame with one raw block, whose window is 128 MiB (RFC 8878, 3.1.1).
  wide: Buffer.concat([
    Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, (TEXT.length << 3) | 1, 0, 0]),
    Buffer.from(TEXT, 'latin1'),
  ]),
}
let acceptEncoding: string | undefined
const server = createServer((req, res) => {
  const name = req.url?.slice(1) ?? ''
  acceptEncoding = req.headers['accept-encoding'] as string
  const encoding = name === 'large' || name === 'broken' ? 'gzip' : name === 'wide' ? 'zstd' : name
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

const fetchDocument = async (name: string) => {
  const fetch = createGuardedFetch({ allowLoopback: true, maxBytes: 100_000 })
  try {
    return (await fetch(`${base}/${name}`)).text
  } finally {
    await fetch.close()
  }
}

async function readSource(name: string): Promise<string> {
  const { signal } = new AbortController()
  await using get = createHttpGet({ publicOnly: false, timeoutMs: 5_000, maxBytes: 100_000, signal })
  const pieces: Buffer[] = []
  await get(`${base}/${name}`, {}, (piece) => void pieces.push(piece))
  return Buffer.concat(pieces).toString()
}

for (const [what, read] of Object.entries({ 'a provider’s document': fetchDocument, 'a source’s': readSource })) {
  for (const encoding of ['gzip', 'deflate', 'br', 'zstd', 'identity'])
    test(`${what} in ${encoding} is read`, async () => {
      assert.is(await read(encoding), TEXT)
      assert.is(acceptEncoding, 'gzip')
    })
  test(`${what} is checked against its limits after decoding`, async () => {
    await read('large').then(
      () => assert.unreachable(),
      (error: Error) => assert.match(error.message, /100000 bytes|larger|100,000|bytes/),
    )
  })
  for (const name of ['broken', 'wide'])
    test(`${what} that can’t be decoded, or takes too much memory for that, is an error: ${name}`, async () => {
      const error = await read(name).then(
        () => undefined,
        (reason: Error) => reason,
      )
      assert.match(error?.message ?? '', 'Content-Encoding')
    })
}

const MIB = 1024 * 1024

/** Decodes a body as from a backend that may make the gateway hold this many bytes. */
function decode(encoding: string, most: number) {
  const share = new Budget({ total: most, share: most, reserve: 0 }).shareOf('b')
  const { promise, resolve } = Promise.withResolvers<string>()
  const found = { share, bytes: 0, mostHeld: 0, drained: 0, end: promise }
  const decoder = decoderFor(encoding, {
    share,
    data(chunk) {
      found.bytes += chunk.length
      found.mostHeld = Math.max(found.mostHeld, share.held)
    },
    drained: () => found.drained++,
    end: () => resolve('end'),
    failed: (error) => resolve(error.message),
  })
  assert.ok(decoder)
  return { decoder, found }
}

for (const [encoding, encoded, window] of [
  ['br', brotliCompressSync(Buffer.alloc(20 * MIB)), 16 * MIB],
  ['zstd', zstdCompressSync(Buffer.alloc(20 * MIB)), 8 * MIB],
] as const) {
  test(`the window of ${encoding} counts in the share as it fills, and no longer than the body`, async () => {
    const { decoder, found } = decode(encoding, 64 * MIB)
    decoder.write(encoded)
    decoder.end()
    assert.is(await found.end, 'end')
    assert.equal([found.bytes, found.mostHeld, found.share.held], [20 * MIB, window, 0])
  })

  test(`a body in ${encoding} for whose window there is no memory fails`, async () => {
    const { decoder, found } = decode(encoding, 4 * MIB)
    decoder.write(encoded)
    assert.is(await found.end, 'there is no memory to decode the answer')
    assert.ok(found.bytes <= 4 * MIB)
    assert.is(found.share.held, 0)
    decoder.stop()
  })
}

test('a body that grows to nothing, however long it is, makes its source wait', async () => {
  const { decoder, found } = decode('gzip', MIB)
  const head = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3])
  // Empty stored blocks (RFC 1951, 3.2.4).
  const blocks = Buffer.from('000000ffff'.repeat(20_000), 'hex')
  assert.is(decoder.write(Buffer.concat([head, blocks])), false)
  await eventually('the reader may continue', () => found.drained === 1)
  assert.is(decoder.write(blocks), false)
  await eventually('the reader may continue again', () => found.drained === 2)
  assert.is(found.bytes, 0)
  decoder.stop()
})

test.run()
