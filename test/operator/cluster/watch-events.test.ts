import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type ApiServer, watch } from '../../../operator/cluster/kubernetes/api-server.ts'

const RESOURCE = { group: '', version: 'v1', plural: 'pods' }
const OPTIONS = { resourceVersion: '1', timeoutSeconds: 1, idleLimit: 1, signal: new AbortController().signal }

/** Gives the names in the events of a watch whose answer comes in these pieces. */
async function namesIn(pieces: readonly string[]): Promise<string[]> {
  const body = {
    setEncoding() {},
    async *[Symbol.asyncIterator]() {
      yield* pieces
    },
  }
  const api = { open: async () => ({ statusCode: 200, body }) } as unknown as ApiServer
  const names: string[] = []
  for await (const { object } of watch<{ name: string }>(api, RESOURCE as Parameters<typeof watch>[1], OPTIONS))
    names.push(object.name)
  return names
}

const buildEvent = (name: string) => `${JSON.stringify({ type: 'ADDED', object: { name } })}\n`
const inPieces = (text: string, size: number) => text.match(new RegExp(`[^]{1,${size}}`, 'g')) as string[]

test('events come in pieces of any size, with empty lines between', async () => {
  const text = `${buildEvent('a')}\n\n${buildEvent('b')}${buildEvent('c')}`
  for (const size of [1, 2, 3, 7, 40, text.length])
    assert.equal(await namesIn(inPieces(text, size)), ['a', 'b', 'c'], `${size}`)
  assert.equal(
    await namesIn([`${buildEvent('a')}${buildEvent('b').slice(0, 9)}`]),
    ['a'],
    'a part of a line is no event',
  )
})

test('a large event is searched for its end once', async () => {
  const text = buildEvent('x'.repeat(1_000_000))
  const { split } = String.prototype
  let searched = 0
  String.prototype.split = function (this: string, ...args: unknown[]) {
    searched += this.length
    return Reflect.apply(split, this, args)
  } as typeof split
  try {
    assert.is((await namesIn(inPieces(text, 16_384)))[0]?.length, 1_000_000)
  } finally {
    String.prototype.split = split
  }
  assert.ok(searched <= 2 * text.length, `${searched} characters of ${text.length}`)
})

test.run()
