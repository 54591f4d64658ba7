/** Tests lists that are cut for some callers only: operators get a warning that names no caller. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildExchangingBackend, startExchangingGateway } from '../../../support/gateway/exchanging-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawRequest, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const MIB = 1024 * 1024
/** The token endpoint puts the caller's name into its tokens. */
const isSentBy = ({ headers }: RawRequest, who: string) => (headers.authorization ?? '').includes(`for-${who}-at`)

const page = (request: RawRequest, list: string, more: object) =>
  answer(request, JSON.stringify({ resultType: 'complete', ...JSON.parse(`{${list}}`), ...more }))

test('lists that are cut for a caller are counted in the status, and those of others are whole', async () => {
  const backend = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      if (request.message.method !== 'tools/list') return false
      const at = Number(request.message.params?.['cursor'] ?? 0)
      const json = (text: string) => res.writeHead(200, { 'content-type': 'application/json' }).end(text)
      const next = { nextCursor: String(at + 1) }
      if (isSentBy(request, 'large'))
        json(page(request, `"tools":[${tool(`t${at}`, `"description":"${'x'.repeat(MIB)}"`)}]`, next))
      else if (isSentBy(request, 'endless')) json(page(request, `"tools":[${tool(`t${at}`)}]`, next))
      else json(page(request, `"tools":[${tool('t')}]`, {}))
      return true
    },
  })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', backend.url, endpoint)])
  const problems = async () =>
    ((await gateway.status()) as unknown as { problems: { code: string; message: string }[] }).problems
  const listTools = async (who: string) =>
    (await postModern(gateway.url, 'tools/list', {}, await gateway.bearer(who))).json.result.tools.length
  try {
    assert.is(await listTools('alice'), 1)
    assert.equal(await problems(), [])
    assert.is(await listTools('endless'), 200)
    const message = (callers: number) =>
      `api: lists of ${callers} callers are cut: they are larger than there is room for`
    assert.equal(await problems(), [{ severity: 'warning', code: 'ListCut', message: message(1) }])
    assert.ok((await listTools('large')) < 20)
    assert.equal(await problems(), [{ severity: 'warning', code: 'ListCut', message: message(2) }])
    assert.is(await listTools('bob'), 1)
  } finally {
    await gateway.close()
    await backend.close()
  }
})

test.run()
