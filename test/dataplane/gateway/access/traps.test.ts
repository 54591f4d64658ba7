/** Tries to bypass policies: with ambiguous JSON, unsigned tokens and other spellings of names. */
import { SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { AUDIENCE, GuardedGateway } from '../../../support/gateway/guarded.ts'
import { MODERN, openSession, post, postModern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const policies = [
  'permit(principal in Group::"eng", action == Action::"call_tool", resource) when { !(context has arg_env) || context.arg_env == "dev" };',
  'forbid(principal, action, resource) when { resource has destructiveHint && resource.destructiveHint };',
]

let backend: RawServer
let guarded: GuardedGateway

test.before(async () => {
  backend = await startRawServer({
    era: 'both',
    tools: [
      tool('deploy'),
      tool('drop', '"annotations":{"destructiveHint":true}'),
      tool('odd', '"annotations":{"destructiveHint":"true","readOnlyHint":{"a":1}}'),
      tool('list', '"annotations":[true]'),
      tool('ä"\\u0000b'),
    ],
    call: (request) => answer(request, OK_RESULT),
  })
  guarded = await GuardedGateway.start([{ name: 'b', url: backend.url }], { policies })
})

test.after(async () => {
  await guarded.close()
  await backend.close()
})

test.before.each(() => {
  backend.seen.length = 0
})

const eng = { sub: 'eve', groups: ['eng'] }
const META = `"_meta":{"io.modelcontextprotocol/protocolVersion":"${MODERN}","io.modelcontextprotocol/clientCapabilities":{}}`

/** Sends a call whose params are raw JSON text, as a hostile client writes them. */
async function rawCall(era: string, params: string) {
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{${params}${era === 'modern' ? `,${META}` : ''}}}`
  const headers = await guarded.bearer(eng)
  if (era === 'legacy') return post(guarded.url, body, await openSession(guarded.url, headers))
  return post(guarded.url, body, {
    ...headers,
    'mcp-protocol-version': MODERN,
    'mcp-method': 'tools/call',
    'mcp-name': 'b_deploy',
  })
}

for (const era of ['modern', 'legacy'])
  test(`${era}: an argument that parsers read differently is denied`, async () => {
    const args = [
      '{"env":"dev","env":"prod"}',
      '{"env":"prod","env":"dev"}',
      '{"env":"dev","Env":"prod"}',
      '{"ENV":"prod"}',
      '{"\\u0065nv":"prod","env":"dev"}',
      '{"env":{"x":1}}',
      '{"env":["prod",{"x":1}]}',
      '["prod"]',
      '"prod"',
    ]
    for (const text of args) {
      const { status, json } = await rawCall(era, `"name":"b_deploy","arguments":${text}`)
      assert.is(status, 403, text)
      assert.is(json.error.code, 403)
    }
    assert.is(backend.calls('tools/call').length, 0)
    for (const text of ['{"env":"dev"}', '{}', '{"env":null}', '{"other":1,"other":2}'])
      assert.is((await rawCall(era, `"name":"b_deploy","arguments":${text}`)).status, 200, text)
    assert.is((await rawCall(era, '"name":"b_deploy","arguments":{"env":"prod"}')).status, 403)
  })

test('a request with a repeated name reaches no backend', async () => {
  for (const params of ['"name":"b_deploy","name":"b_drop"', '"name":"b_deploy","Name":"b_drop"'])
    assert.is((await rawCall('modern', params)).json.error.code, -32600)
  assert.is(backend.calls('tools/call').length, 0)
})

test('boolean annotations count, and a tool with any others is not listed', async () => {
  const call = async (name: string) => (await guarded.modern(eng, 'tools/call', { name, arguments: {} })).status
  assert.is(await call('b_drop'), 403)
  assert.is(await call('b_deploy'), 200)
  for (const name of ['b_odd', 'b_list']) assert.is(await call(name), 403, name)
  const { json } = await guarded.modern(eng, 'tools/list')
  const names = json.result.tools.map(({ name }: { name: string }) => name)
  assert.not(names.includes('b_drop'))
  assert.is(names.length, 2)
  for (const name of names.filter((one: string) => !one.includes('ä'))) assert.is(await call(name), 200, name)
})

test('only the listed name of a tool works, neither the backend’s own name nor another spelling', async () => {
  for (const name of [
    'deploy',
    'B_DEPLOY',
    'b_deploy ',
    ' b_deploy',
    'b_deploy\0',
    '*',
    'Tool::"b_deploy"',
    '__proto__',
  ])
    assert.is((await guarded.legacy(eng, 'tools/call', { name, arguments: {} })).status, 403, name)
  assert.is(backend.calls('tools/call').length, 0)
})

test('claims of an unverified token are ignored', async () => {
  const call = (headers: Record<string, string>) =>
    postModern(guarded.url, 'tools/call', { name: 'b_deploy', arguments: {} }, headers)
  const { authorization } = await guarded.bearer({ sub: 'mallory' })
  const [head, , signature] = (authorization as string).split('.')
  const claims = { iss: guarded.idp.issuer, aud: AUDIENCE, sub: 'mallory', groups: ['eng'], exp: 2 ** 40 }
  const body = Buffer.from(JSON.stringify(claims)).toString('base64url')
  const none = Buffer.from('{"alg":"none"}').toString('base64url')
  const own = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from('secret'.repeat(8)))
  for (const wrong of [`${head}.${body}.${signature}`, `Bearer ${none}.${body}.`, `Bearer ${own}`])
    assert.is((await call({ authorization: wrong })).status, 401)
  assert.is((await call({ authorization: authorization as string })).status, 403)
  // Claims outside the token do not count.
  const forged = { authorization: authorization as string, 'x-groups': 'eng', 'x-forwarded-groups': 'eng' }
  assert.is((await call(forged)).status, 403)
  assert.is(backend.calls('tools/call').length, 0)
})

test('unknown methods reach no backend', async () => {
  for (const method of ['tools/run', 'resources/delete', 'sampling/createMessage', 'elicitation/create', 'tools/Call'])
    assert.is.not((await guarded.legacy(eng, method, { name: 'b_deploy' })).json?.error, undefined, method)
  assert.is(backend.seen.filter(({ message }) => message.params?.['name'] === 'b_deploy').length, 0)
})

test('many different callers at once each get their own answers', async () => {
  const claims = Array.from({ length: 40 }, (_, index) => ({ sub: `u${index}`, groups: index % 2 ? ['eng'] : ['x'] }))
  const answers = await Promise.all(
    claims.flatMap((one) => [
      guarded.modern(one, 'tools/list').then(({ json }) => json.result.tools.length),
      guarded.modern(one, 'tools/call', { name: 'b_deploy', arguments: {} }).then(({ status }) => status),
    ]),
  )
  for (const [index, { groups }] of claims.entries())
    assert.equal(answers.slice(2 * index, 2 * index + 2), groups[0] === 'eng' ? [2, 200] : [0, 403])
})

/** V8 13.6 reads the second member of each object after the first with the first one's name. */
test('an argument whose name a parser confuses with another is denied', async () => {
  const judged = await GuardedGateway.start([{ name: 'b', url: backend.url }], {
    policies: [
      'permit(principal, action, resource);',
      'forbid(principal, action, resource) when { context has arg_e && context.arg_e == "prod" };',
    ],
  })
  const call = async (args: string) => {
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b_deploy","arguments":${args},${META}}}`
    const headers = {
      ...(await judged.bearer(eng)),
      'mcp-protocol-version': MODERN,
      'mcp-method': 'tools/call',
      'mcp-name': 'b_deploy',
    }
    return (await post(judged.url, body, headers)).status
  }
  assert.is(await call('{"a":1,"e":"dev"}'), 200)
  assert.is(await call('{"a":1,"\\u0065":"prod"}'), 403)
  await call('{"a":1,"\\\\":1}')
  for (let more = 0; more < 3; more++) assert.is(await call('{"a":1,"\\u0065":"prod"}'), 403)
  await judged.close()
})

test.run()
