/** Checks that streams of backends outlive the credentials that opened them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import {
  buildExchangingBackend,
  type ExchangingGateway,
  startExchangingGateway,
} from '../../../support/gateway/exchanging-gateway.ts'
import { BASE_HEADERS, modern, openSession, post, rpc } from '../../../support/gateway/post.ts'
import { buildExchanged, readSubject, respond } from '../../../support/network/token-endpoint.ts'
import { type PersonalServer, startPersonalServer } from '../../../support/servers/personal-server.ts'

const eras = ['modern', 'legacy'] as const
type Era = (typeof eras)[number]

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** Starts a client of Alice that watches her resource; tokens live for this many seconds. */
async function startListening(client: Era, backend: Era, life: number) {
  const faults: string[] = []
  const server = await startPersonalServer({ name: 'own', era: backend, faults })
  const gateway = await startExchangingGateway((endpoint) => [
    buildExchangingBackend('own', server.url, endpoint, {
      clientId: undefined as never,
      clientSecretFile: undefined as never,
    }),
  ])
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
    () => assert.equal(faults, []),
  )
  const setting = { life }
  gateway.endpoint.answer = ({ form }, response) => {
    const token = `of-${readSubject(form['subject_token'])}-for-own_${gateway.endpoint.requests.length}`
    respond(response, 200, buildExchanged(token, { expires_in: setting.life }))
  }
  const reader = (await listen(client, gateway)).leftBy(cleanups)
  const countUpdates = () => reader.messages.filter(({ params }) => params?.uri === 'own://alice').length
  /** Waits for an update that was sent after the call. */
  const waitForUpdate = async () => {
    const before = countUpdates()
    await eventually('an update', () => server.notify('alice', 'own://alice') > 0 && countUpdates() > before)
  }
  await waitForUpdate()
  return { server, gateway, setting, hears: waitForUpdate }
}

async function listen(client: Era, gateway: ExchangingGateway): Promise<EventReader> {
  const own = await gateway.bearer('alice')
  if (client === 'modern') {
    const { headers, body } = modern('subscriptions/listen', {
      notifications: { resourceSubscriptions: ['own://alice'] },
    })
    return EventReader.open(gateway.url, { method: 'POST', headers: { ...BASE_HEADERS, ...headers, ...own }, body })
  }
  const session = await openSession(gateway.url, own)
  assert.ok((await post(gateway.url, rpc('resources/subscribe', { uri: 'own://alice' }), session)).json.result)
  return EventReader.listen(gateway.url, session)
}

const lastCredential = ({ seen }: PersonalServer) => seen.at(-1)?.headers.authorization ?? ''

for (const client of eras)
  for (const backend of eras) {
    test(`${client} client, ${backend} backend: a stream that ends after its credential expired reopens with a new one`, async () => {
      const { server, gateway, setting, hears } = await startListening(client, backend, 1)
      const exchanges = gateway.endpoint.requests.length
      setting.life = 600
      await new Promise((resolve) => setTimeout(resolve, 1_100))
      server.cut('alice')
      await hears()
      assert.ok(gateway.endpoint.requests.length > exchanges)
    })

    test(`${client} client, ${backend} backend: a refused stream reopens once with a new credential`, async () => {
      const { server, gateway, hears } = await startListening(client, backend, 600)
      const exchanges = gateway.endpoint.requests.length
      const used = new Set(server.seen.map(({ headers }) => headers.authorization ?? ''))
      for (const credential of used) server.revoked.add(credential)
      server.cut('alice')
      await hears()
      assert.is(gateway.endpoint.requests.length, exchanges + 1)
      assert.not.ok(used.has(lastCredential(server)))
    })
  }

test('a stream whose credential is unavailable opens once there is one', async () => {
  const { server, gateway, setting, hears } = await startListening('legacy', 'legacy', 1)
  const { answer } = gateway.endpoint
  let refusals = 0
  gateway.endpoint.answer = (_request, response) => {
    refusals++
    respond(response, 503, {})
  }
  await new Promise((resolve) => setTimeout(resolve, 1_100))
  server.cut('alice')
  await eventually('the refusals', () => refusals > 0)
  setting.life = 600
  gateway.endpoint.answer = answer
  await hears()
})

test.run()
