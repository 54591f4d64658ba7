import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { watchKubernetes } from '../../../../dataplane/registry/sources/kubernetes/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { json, startUpstream } from '../../../support/network/upstream.ts'

for (const [name, answer] of [
  ['that ends each watch at once', ''],
  ['to which each watch is too old', '{"type":"ERROR","object":{"kind":"Status","code":410}}\n'],
  ['that knows the kind for a list and not for a watch', undefined],
] as const)
  test(`an API server ${name} is asked again with growing waits`, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'portico-cluster-'))
    await writeFile(join(folder, 'token'), 'token')
    await writeFile(join(folder, 'ca.crt'), rootCertificates[0] as string)
    const server = await startUpstream((url, response) => {
      if (!url.searchParams.has('watch')) json(response, { items: [], metadata: { resourceVersion: '1' } })
      else if (answer === undefined) response.writeHead(404).end()
      else response.writeHead(200).end(answer)
    })
    const following = new AbortController()
    let looks = 0
    watchKubernetes(
      {
        kind: 'kubernetes',
        group: 'portico.dev',
        namespaces: ['team'],
        server: server.url,
        tokenFile: join(folder, 'token'),
        caFile: join(folder, 'ca.crt'),
      },
      () => void looks++,
      following.signal,
    )
    const lists = (plural: string) =>
      server.requests.filter(({ url }) => url.pathname.endsWith(`/${plural}`) && !url.searchParams.has('watch'))
    await eventually('it is called again', () => lists('mcpservers').length >= 3)
    assert.ok(looks > 0)
    const [first, second, third] = lists('mcpservers').map(({ at }) => at) as [number, number, number]
    assert.ok(second - first >= 1_000, `${second - first}`)
    assert.ok(third - second >= 2_000, `${third - second}`)
    following.abort(new Error('the end'))
    await server.close()
    await rm(folder, { recursive: true, force: true })
  })

test.run()
