/**
 * Callers with the same lists share catalogs and routes. Each call is still sent with its own caller's credential, even
 * while others' lists change. `ISOLATION_SEED` chooses the run.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { buildExchangingBackend, startExchangingGateway } from '../../../support/gateway/exchanging-gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { buildExchanged, readSubject, respond } from '../../../support/network/token-endpoint.ts'
import { createRandom } from '../../../support/random.ts'
import { answer, type RawRequest, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const random = createRandom(Number(process.env['ISOLATION_SEED'] ?? 15))
const pickOne = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T

const USERS = Array.from({ length: 12 }, (_, index) => `user${index}`)
const WORKERS = 6
const CALLS = 100

const readOwner = ({ headers }: Pick<RawRequest, 'headers'>): string =>
  /^Bearer of-(\w+)$/.exec(headers.authorization ?? '')?.[1] ?? 'nobody'

test('each call carries its caller’s own credential, also on a shared route', async () => {
  /** The users who currently see one more tool. */
  const favoured = new Set<string>()
  const faults: string[] = []
  const server = await startRawServer({
    era: 'modern',
    call(request) {
      const owner = readOwner(request)
      const { name } = request.message.params as { name: string }
      if (name.startsWith('of-') && name !== `of-${owner}`) faults.push(`${owner} calls ${name}`)
      return answer(request, `{"resultType":"complete","content":[{"type":"text","text":"${owner}"}]}`)
    },
    before(request, res) {
      if (request.message.method !== 'tools/list') return false
      const owner = readOwner(request)
      const tools = [tool('common'), ...(favoured.has(owner) ? [tool(`of-${owner}`)] : [])]
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(answer(request, `{"resultType":"complete","tools":[${tools.join(',')}]}`))
      return true
    },
  })
  const gateway = await startExchangingGateway(
    (endpoint) => ['a', 'b'].map((name) => buildExchangingBackend(name, server.url, endpoint)),
    { failureHandling: { healthCheckInterval: '6s', healthCheckTimeout: '5900ms' } },
  )
  gateway.endpoint.answer = ({ form }, response) =>
    respond(response, 200, buildExchanged(`of-${readSubject(form['subject_token']) || 'gateway'}`))
  const namesFor = async (user: string): Promise<readonly string[]> => {
    const { json } = await postModern(gateway.url, 'tools/list', {}, await gateway.bearer(user))
    return json.result.tools.map(({ name }: { name: string }) => name)
  }
  const call = async (user: string, name: string) => {
    const { json } = await postModern(gateway.url, 'tools/call', { name, arguments: {} }, await gateway.bearer(user))
    return json
  }
  async function runWorker(): Promise<void> {
    for (let left = CALLS; left > 0; left--) {
      const user = pickOne(USERS)
      if (random() < 0.1) favoured[favoured.has(user) ? 'delete' : 'add'](user)
      if (random() < 0.2) {
        const names = await namesFor(user)
        const foreign = names.filter((name) => !name.endsWith('_common') && !name.endsWith(`_of-${user}`))
        if (foreign.length > 0) faults.push(`${user} sees ${foreign.join()}`)
      } else {
        const name = `${pickOne(['a', 'b'])}_${pickOne(['common', `of-${user}`])}`
        const { result } = await call(user, name)
        // The user's own tool may currently be missing.
        if (result === undefined ? name.endsWith('_common') : result.content[0].text !== user)
          faults.push(`${user} called ${name} and got ${JSON.stringify(result)}`)
      }
    }
  }
  try {
    await Promise.all(Array.from({ length: WORKERS }, runWorker))
    assert.equal(faults, [])
    favoured.clear()
    favoured.add('user0')
    await eventually('one caller alone is shown more', async () => {
      const lists = await Promise.all(USERS.map(namesFor))
      return lists.every((names, index) => names.length === (index === 0 ? 4 : 2))
    })
    for (const user of USERS) assert.is((await call(user, 'a_common')).result.content[0].text, user)
    const other = await call('user1', 'a_of-user0')
    assert.is(other.error.code, -32602)
    assert.is((await call('user0', 'a_of-user0')).result.content[0].text, 'user0')
    assert.equal(faults, [])
  } finally {
    await gateway.close()
    await server.close()
  }
})

test.run()
