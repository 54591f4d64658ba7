import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Need } from './need.ts'
import { announcement, lackingByHand, type Machine, planFor, refusal, remedy } from './plan.ts'

const absent = (name: string, more: Partial<Need> = {}): Need => ({ name, present: () => false, debian: [], ...more })
const go = absent('Go', { hint: 'from its site', brew: ['go'] })
const redis = absent('redis-server', { debian: ['redis-server'], brew: ['redis'] })
const browser = absent('chromium', { debian: ['chromium'], notOnUbuntu: true, hint: 'or Chrome' })
const built = absent('Kubernetes', { make: async () => {}, minutes: 8, by: [go] })
const needs = [redis, browser, built, { ...absent('git'), present: () => true }]

const explainRefusal = (machine: Machine, some: readonly Need[] = needs) => refusal(planFor(some, machine), machine)

test('as root on Debian the user is asked only for what no package brings', () => {
  const machine = { isRoot: true, packages: 'apt' } as const
  assert.is(explainRefusal(machine, [redis, browser]), undefined)
  assert.is(
    explainRefusal(machine),
    'What no package brings:\n  Go (from its site)\nThen run this again: it does the rest by itself.',
  )
})

test('elsewhere one command installs all packages', () => {
  assert.is(
    explainRefusal({ isRoot: false, packages: 'apt' }),
    `Install what the tests need:
  sudo sh -c 'apt-get update && apt-get install --yes --no-install-recommends chromium redis-server'
What no package brings:
  Go (from its site)
Then run this again: it does the rest by itself.`,
  )
  assert.match(explainRefusal({ isRoot: false, packages: 'brew' }) ?? '', '  brew install chromium go redis\n')
  assert.match(
    explainRefusal({ isRoot: true, packages: undefined }) ?? '',
    '  redis-server\n  chromium (or Chrome)\n  Go (from its site)\n',
  )
  assert.match(
    explainRefusal({ isRoot: true, packages: 'apt', isUbuntu: true }, [browser]) ?? '',
    '  chromium (or Chrome)\n',
  )
})

test('a builder is needed only if there is something to build', () => {
  const machine = { isRoot: true, packages: 'apt' } as const
  assert.is(explainRefusal(machine, [{ ...built, present: () => true }]), undefined)
})

test('each thing that only the user can bring has its command', () => {
  const root = { isRoot: true, packages: 'apt' } as const
  const user = { isRoot: false, packages: 'apt' } as const
  assert.equal(lackingByHand(redis, root), [])
  assert.equal(lackingByHand(built, root), [go])
  assert.equal(lackingByHand(redis, user), [redis])
  assert.equal(lackingByHand({ ...redis, present: () => true }, user), [])
  assert.is(
    remedy(redis, user),
    "sudo sh -c 'apt-get update && apt-get install --yes --no-install-recommends redis-server'",
  )
  assert.is(remedy(go, { isRoot: false, packages: 'brew' }), 'brew install go')
  assert.is(remedy(go, user), 'from its site')
})

test('the quick ones are made first, and what reuses the work of another behind it', () => {
  const machine = { isRoot: true, packages: 'apt' } as const
  const make = async () => {}
  const reusing = absent('Helm', { make, minutes: 1, after: { ...built } })
  const quick = absent('pause', { make, minutes: 0.1 })
  const long = absent('Keycloak', { make, minutes: 8.5 })
  const namesOf = (some: readonly Need[]) => planFor(some, machine).made.map(({ name }) => name)
  assert.equal(namesOf([reusing, long, built, quick]), ['pause', 'Kubernetes', 'Keycloak', 'Helm'])
  assert.equal(namesOf([reusing, long, { ...built, present: () => true }]), ['Helm', 'Keycloak'])
})

test('set-up says what it is about to do and how long that takes', () => {
  const machine = { isRoot: true, packages: 'apt' } as const
  assert.is(
    announcement(planFor([redis, built], machine), machine),
    'Set-up, once on this machine, about 9 minutes on two cores:\n  Debian packages: redis-server\n  Kubernetes',
  )
  assert.match(
    announcement(planFor([absent('x', { make: async () => {}, minutes: 0.1 })], machine), machine),
    'less than',
  )
})

test.run()
