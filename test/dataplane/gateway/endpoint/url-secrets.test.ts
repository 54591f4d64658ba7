/** Checks that keys in the query of a backend's or key endpoint's URL are shown nowhere. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

const SECRET = 's3cr3t-in-a-query'

test('status, log, errors and pages contain no query of a URL', async () => {
  const backend = await startRawServer({ era: 'legacy', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startGateway({
    backends: [
      { name: 'up', url: `${backend.url}?key=${SECRET}` },
      { name: 'down', url: `http://127.0.0.1:9/mcp?key=${SECRET}` },
      { name: 'old', url: `http://127.0.0.1:9/sse?key=${SECRET}`, transport: 'sse' },
    ],
  })
  const guarded = await startGateway({
    backends: [{ name: 'up', url: `${backend.url}?key=${SECRET}` }],
    incomingAuth: {
      type: 'oidc',
      oidc: {
        issuer: backend.url,
        audience: 'us',
        allowPrivateIP: true,
        jwksUrl: `${backend.url}/keys?key=${SECRET}`,
      },
    },
  })
  try {
    await eventually('failures', async () =>
      (await gateway.status()).backends.every(({ health }) => health !== 'unknown'),
    )
    assert.ok(backend.seen.length > 0, 'the query is sent to the backend all the same')
    const session = await openSession(gateway.url)
    const visible: string[] = []
    for (const name of ['up_t', 'down_t', 'old_t', 'none']) {
      visible.push((await post(gateway.url, rpc('tools/call', { name }), session)).text)
      visible.push((await postModern(gateway.url, 'tools/call', { name })).text)
    }
    const unchecked = {
      authorization: `Bearer ${btoa('{"alg":"RS256"}')}.${btoa(`{"iss":"${backend.url}"}`)}.x`.replaceAll('=', ''),
    }
    visible.push((await postModern(guarded.url, 'tools/list', {}, unchecked)).text)
    for (const { adminUrl, base } of [gateway, guarded])
      for (const path of [`${adminUrl}/status`, `${adminUrl}/readyz`, `${base}/`, `${base}/none`])
        visible.push(await (await fetch(path)).text())
    visible.push(JSON.stringify(gateway.lines), JSON.stringify(guarded.lines))
    for (const text of visible) assert.not.match(text, SECRET)
    assert.match(visible.join(), backend.url)
  } finally {
    await Promise.all([gateway.close(), guarded.close()])
    await backend.close()
  }
})

test.run()
