/**
 * Checks that updates of resources are authorized when they arrive, by the current policies and claims, for each pair
 * of eras.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type Claims, GuardedGateway } from '../../../support/gateway/guarded.ts'
import { BASE_HEADERS, modern, openSession, post, rpc } from '../../../support/gateway/post.ts'
import { NOBODY, type PersonalServer, startPersonalServer } from '../../../support/servers/personal-server.ts'

const ALL = 'permit(principal, action, resource);'
const eras = ['modern', 'legacy'] as const
type Era = (typeof eras)[number]

let servers: Readonly<Record<Era, PersonalServer>>
let guarded: GuardedGateway

test.before(async () => {
  const start = (era: Era) => startPersonalServer({ name: era, era, faults: [] })
  servers = { modern: await start('modern'), legacy: await start('legacy') }
  guarded = await GuardedGateway.start(
    eras.map((era) => ({ name: era, url: servers[era].url })),
    { policies: [ALL] },
  )
  await guarded.gateway.listed()
})
test.after(async () => {
  await guarded.close()
  await Promise.all(eras.map((era) => servers[era].close()))
})

const cleanups: (() => unknown)[] = []
test.before.each(() => guarded.enforce({ policies: [ALL] }))
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const listUris = ({ messages }: EventReader): string[] =>
  messages.flatMap(({ method, params }) =>
    method === 'notifications/resources/updated' ? [String(params['uri'])] : [],
  )

/** Opens a client's stream that watches these resources; `again` opens another one in its place. */
async function watch(era: Era, claims: Claims, uris: readonly string[]) {
  const headers = await guarded.bearer(claims)
  if (era === 'modern') {
    const request = modern('subscriptions/listen', { notifications: { resourceSubscriptions: uris } })
    const open = (bearer: Record<string, string>) =>
      EventReader.open(guarded.url, {
        method: 'POST',
        headers: { ...BASE_HEADERS, ...request.headers, ...bearer },
        body: request.body,
      })
    return { reader: (await open(headers)).leftBy(cleanups), again: open }
  }
  const session = await openSession(guarded.url, headers)
  for (const uri of uris) assert.is((await post(guarded.url, rpc('resources/subscribe', { uri }), session)).status, 200)
  const reader = (await EventReader.listen(guarded.url, session)).leftBy(cleanups)
  return {
    reader,
    again: (bearer: Record<string, string>) => EventReader.listen(guarded.url, { ...session, ...bearer }),
  }
}

for (const client of eras)
  for (const backend of eras) {
    const common = `${backend}://common`
    /** Always allowed. An earlier update that has not arrived before this resource's never will. */
    const other = `${backend}://${NOBODY}`

    /** Changes both resources; returns the updates on a stream. */
    async function change(reader: EventReader): Promise<readonly string[]> {
      const before = listUris(reader).length
      // A stream of the backend may open late or be replaced.
      await eventually('an update', () => {
        servers[backend].notify(NOBODY, common)
        servers[backend].notify(NOBODY, other)
        return listUris(reader).slice(before).includes(other)
      })
      return [...new Set(listUris(reader).slice(before))].sort()
    }

    async function waitForBoth(reader: EventReader): Promise<void> {
      const seen = new Set<string>()
      await eventually('updates of both', async () => {
        for (const uri of await change(reader)) seen.add(uri)
        return seen.size === 2
      })
    }

    test(`${client} client, ${backend} backend: replaced policies apply to open streams`, async () => {
      const { reader } = await watch(client, { sub: 'alice' }, [common, other])
      await waitForBoth(reader)
      await guarded.enforce({ policies: [ALL, `forbid(principal, action, resource == Resource::"${common}");`] })
      // Earlier updates have arrived by then.
      await change(reader)
      assert.equal(await change(reader), [other])
      assert.not.ok(reader.ended)
      await guarded.enforce({ policies: [ALL] })
      await waitForBoth(reader)
    })

    test(`${client} client, ${backend} backend: a stream that reopens with other claims is judged by these`, async () => {
      const policies = [
        ALL,
        `forbid(principal, action, resource == Resource::"${common}") unless { principal has claim_level };`,
      ]
      await guarded.enforce({ policies })
      const { reader, again } = await watch(client, { sub: 'alice', level: 2 }, [common, other])
      await waitForBoth(reader)
      await reader.leave()
      const lesser = (await again(await guarded.bearer({ sub: 'alice' }))).leftBy(cleanups)
      assert.is(lesser.status, 200)
      assert.equal(await change(lesser), [other])
    })
  }

test.run()
