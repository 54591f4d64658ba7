import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthConfig } from '../../../../dataplane/config/registry.ts'
import { type ClaimsMap, satisfies, type TokenClaims } from '../../../../dataplane/identity/claims.ts'
import type { Caller } from '../../../../dataplane/identity/index.ts'
import {
  type Actor,
  createActors,
  createVisibility,
  hasRole,
  mayManage,
  mayReach,
  maySee,
  publishFault,
  type RoleRules,
  resolveRoles,
  sameClaims,
} from '../../../../dataplane/registry/authz/access.ts'

const acme = { org: 'acme' }
const platform = { org: 'acme', team: 'platform' }

/** The caller's claims, the required claims, and whether they suffice (specification, claim containment). */
const containment: [TokenClaims, ClaimsMap, boolean][] = [
  [platform, acme, true],
  [acme, platform, false],
  [acme, {}, true],
  [{}, {}, true],
  [{ org: 'contoso' }, acme, false],
  [{}, acme, false],
  [{ org: ['acme', 'contoso'] }, acme, true],
  [{ org: ['contoso'] }, acme, false],
  [{ org: [] }, acme, false],
  [{ org: [['acme']] }, acme, false],
  [{ org: { acme: true } }, acme, false],
  [{ org: null }, acme, false],
  [{ org: 'ACME' }, acme, false],
  [{ org: 'acme ' }, acme, false],
  [{ Org: 'acme' }, acme, false],
  [{ level: 1 }, { level: '1' }, false],
  [{ level: [1] }, { level: '1' }, false],
  [{ admin: true }, { admin: 'true' }, false],
  [{ scope: 'read write' }, { scope: 'read' }, false],
  [{ team: ['a', 'b'] }, { team: 'b' }, true],
  [{}, { constructor: 'Object' }, false],
  [{}, JSON.parse('{"__proto__": "x"}'), false],
  [JSON.parse('{"__proto__": "x"}'), JSON.parse('{"__proto__": "x"}'), true],
  [{}, { toString: '' }, false],
  [{ note: '' }, { note: '' }, true],
]
for (const [claims, required, allowed] of containment)
  test(`${JSON.stringify(claims)} ${allowed ? 'satisfies' : 'does not satisfy'} ${JSON.stringify(required)}`, () => {
    assert.is(satisfies(claims, required), allowed)
  })

const rules: RoleRules = {
  superAdmin: [{ role: 'root' }],
  manageSources: [{ role: 'admin' }, { team: 'platform', org: 'acme' }],
  manageEntries: [{ groups: 'writers' }, {}],
}
const resolved: [TokenClaims, string[]][] = [
  [{}, []],
  [{ role: 'root' }, ['superAdmin']],
  [{ role: ['root', 'admin'] }, ['superAdmin', 'manageSources']],
  [{ team: 'platform' }, []],
  [{ team: 'platform', org: 'acme' }, ['manageSources']],
  [{ groups: ['readers', 'writers'] }, ['manageEntries']],
  [{ groups: 'writers,readers' }, []],
  [{ role: 'manageSources' }, []],
]
for (const [claims, roles] of resolved)
  test(`${JSON.stringify(claims)} gives the roles [${roles}]`, () => {
    assert.equal([...resolveRoles(claims, rules)], roles)
  })

const oauth = { providers: [] }
const modes = {
  anonymous: { mode: 'anonymous' },
  'auth-only': { mode: 'oauth', oauth },
  full: { mode: 'oauth', oauth, authz: { roles: rules as object, unlabelled: 'allow' } },
} as Record<'anonymous' | 'auth-only' | 'full', AuthConfig>

const caller = (claims: TokenClaims): Caller => ({
  kind: 'authenticated',
  issuer: 'https://issuer.example',
  subject: 'alice',
  claims,
  expiresAt: 4e9,
})
const actor = (mode: keyof typeof modes, claims?: TokenClaims): Actor =>
  createActors(modes[mode])(claims === undefined ? { kind: 'anonymous' } : caller(claims))

test('without authentication everything is allowed; without authz everything except others’ names', () => {
  assert.is(actor('anonymous').unrestricted, true)
  assert.is(actor('auth-only', {}).unrestricted, true)
  assert.equal(
    [...actor('auth-only', {}).roles],
    ['superAdmin', 'manageSources', 'manageRegistries', 'manageEntries', 'readGates'],
  )
  assert.is(actor('full', {}).unrestricted, false)
  assert.equal([...actor('full', {}).roles], [])
  assert.is(actor('full', { role: 'root' }).unrestricted, true)
})

test('a caller without a token has no role if authentication is on', () => {
  for (const mode of ['auth-only', 'full'] as const)
    for (const role of ['manageSources', 'manageRegistries', 'manageEntries', 'readGates'] as const)
      assert.is(hasRole(actor(mode), role), false)
})

test('a super-admin has every role, others only their own', () => {
  assert.is(hasRole(actor('full', { role: 'root' }), 'manageRegistries'), true)
  assert.is(hasRole(actor('full', { role: 'admin' }), 'manageSources'), true)
  assert.is(hasRole(actor('full', { role: 'admin' }), 'manageRegistries'), false)
})

/** The caller's claims, the object's claims, and whether the caller may reach, see and manage it. */
const access: [TokenClaims, ClaimsMap, boolean, boolean, boolean][] = [
  [acme, {}, true, false, true],
  [{}, {}, true, false, true],
  [acme, acme, true, true, true],
  [acme, platform, false, false, false],
  [{ role: 'root' }, platform, true, true, true],
  [{ role: 'root' }, {}, true, true, true],
]
for (const [own, claims, reach, see, manage] of access)
  test(`${JSON.stringify(own)} and ${JSON.stringify(claims)}: reach ${reach}, see ${see}, manage ${manage}`, () => {
    const who = actor('full', own)
    assert.equal([mayReach(who, claims), maySee(who, claims), mayManage(who, claims)], [reach, see, manage])
  })

test('under unlabelled: deny objects without claims are closed, except to super-admins', () => {
  const actorOf = createActors({ ...modes.full, authz: { roles: rules as object, unlabelled: 'deny' } })
  assert.is(mayReach(actorOf(caller(acme)), {}), false)
  assert.is(mayReach(actorOf(caller(acme)), acme), true)
  assert.is(mayReach(actorOf(caller({ role: 'root' })), {}), true)
})

/** Mode, the caller's claims, the published claims, the existing entry's claims, the error. */
const publishing: [
  keyof typeof modes,
  TokenClaims | undefined,
  ClaimsMap,
  ClaimsMap | undefined,
  string | undefined,
][] = [
  ['full', acme, acme, undefined, undefined],
  ['full', acme, {}, undefined, 'claims_required'],
  ['full', acme, platform, undefined, 'claims_not_subset'],
  ['full', platform, acme, undefined, undefined],
  ['full', platform, acme, acme, undefined],
  ['full', platform, platform, acme, 'claims_mismatch'],
  ['full', platform, {}, acme, 'claims_required'],
  ['full', platform, {}, {}, undefined],
  ['full', platform, acme, {}, 'claims_mismatch'],
  ['full', { role: 'root' }, platform, undefined, undefined],
  ['full', { role: 'root' }, {}, undefined, 'claims_required'],
  ['full', { role: 'root' }, platform, acme, 'claims_mismatch'],
  ['auth-only', acme, acme, undefined, undefined],
  ['auth-only', acme, {}, undefined, 'claims_required'],
  ['auth-only', acme, platform, undefined, 'claims_not_subset'],
  ['auth-only', platform, platform, acme, 'claims_mismatch'],
  ['anonymous', undefined, {}, undefined, undefined],
  ['anonymous', undefined, acme, undefined, undefined],
  ['anonymous', undefined, {}, acme, 'claims_required'],
  ['anonymous', undefined, platform, acme, 'claims_mismatch'],
]
for (const [mode, own, claims, existing, fault] of publishing)
  test(`${mode}: ${JSON.stringify(own)} publishes ${JSON.stringify(claims)} over ${JSON.stringify(existing)}: ${fault ?? 'fine'}`, () => {
    assert.is(publishFault(actor(mode, own), claims, existing), fault)
  })

test('equal claims in another order are the same', () => {
  assert.is(sameClaims(platform, { team: 'platform', org: 'acme' }), true)
  assert.is(sameClaims(platform, acme), false)
  assert.is(sameClaims(acme, platform), false)
  assert.is(sameClaims({ a: '1' }, { b: '1' }), false)
})

test('the visible sets of claims are computed once, and again when the sets change', () => {
  let looks = 0
  let revision = 1
  const claims = (value: ClaimsMap) =>
    new Proxy(value, {
      ownKeys(target) {
        looks += 1
        return Reflect.ownKeys(target)
      },
    })
  let sets = [
    { id: 0, claims: claims({}) },
    { id: 1, claims: claims(acme) },
    { id: 2, claims: claims(platform) },
  ]
  const visibilityOf = createVisibility(() => ({ revision, sets }))
  const who = actor('full', acme)
  assert.equal(visibilityOf(who).visible, [1])
  const before = looks
  const { tag } = visibilityOf(who)
  assert.is(looks, before)
  assert.is.not(visibilityOf(actor('full', platform)).tag, tag)

  sets = [...sets, { id: 7, claims: claims(acme) }]
  revision = 2
  assert.equal(visibilityOf(who).visible, [1, 7])
  assert.is.not(visibilityOf(who).tag, tag)
  assert.equal(visibilityOf(actor('full', {})).visible, [])
  assert.is(visibilityOf(actor('full', { role: 'root' })).visible, 'all')
  assert.is(visibilityOf(actor('anonymous')).visible, 'all')
})

test.run()
