import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkRegistry } from '../../../dataplane/config/check/registry.ts'
import type { RegistryConfig } from '../../../dataplane/config/registry.ts'

const good: RegistryConfig = {
  sources: [{ name: 'files', file: { path: 'a.json' } }],
  registries: [{ name: 'main', sources: ['files'] }],
  auth: { mode: 'anonymous' },
}
const [source] = good.sources as [RegistryConfig['sources'][number]]
const inCluster = (url: string) => ({
  name: 'files',
  kubernetes: { namespaces: ['a'], apiServer: { url, tokenFile: '/run/token', caFile: '/run/ca.crt' } },
})
const [registry] = good.registries as [RegistryConfig['registries'][number]]

for (const [what, change, pointers] of [
  ['nothing wrong', {}, []],
  [
    'what is for tokens in mode anonymous',
    { auth: { mode: 'anonymous', authz: {}, publicPaths: ['/registry/open'] } },
    ['/auth/authz', '/auth/publicPaths'],
  ],
  ['two sources of a name', { sources: [source, source] }, ['/sources/1/name']],
  [
    'an interval below a second',
    { sources: [{ ...source, syncPolicy: { interval: '999ms' } }] },
    ['/sources/0/syncPolicy/interval'],
  ],
  [
    'headers of a name in another case',
    {
      sources: [
        {
          name: 'files',
          api: {
            endpoint: 'https://a.example',
            headers: [
              { name: 'X-Key', valueFile: 'a' },
              { name: 'x-key', valueFile: 'b' },
            ],
          },
        },
      ],
    },
    ['/sources/0/api/headers/1/name'],
  ],
  ...(
    [
      'https://kubernetes.default.svc',
      'https://kubernetes.default.svc.cluster.local',
      'https://127.0.0.1:6443',
    ] as const
  ).map((url) => [`the API server ${url}`, { sources: [inCluster(url)] }, []] as const),
  ...(
    [
      'https://evil.example',
      'https://kubernetes.default.svc.evil.example',
      'http://kubernetes.default.svc',
      'https://kubernetes.default.svc:8443',
      'https://10.0.0.1',
    ] as const
  ).map(
    (url) => [`the token for ${url}`, { sources: [inCluster(url)] }, ['/sources/0/kubernetes/apiServer/url']] as const,
  ),
  ['two registries of a name', { registries: [registry, registry] }, ['/registries/1/name']],
  ['a source that isn’t there', { registries: [{ name: 'a', sources: ['files', 'no'] }] }, ['/registries/0/sources/1']],
  ['a source twice', { registries: [{ name: 'a', sources: ['files', 'files'] }] }, ['/registries/0/sources/1']],
  [
    'origins',
    { cors: { origins: ['*', 'https://a.example', 'https://a.example/', 'a'] } },
    ['/cors/origins/2', '/cors/origins/3'],
  ],
] as const)
  test(`rules across fields: ${what}`, () => {
    const found = checkRegistry({ ...good, ...change } as RegistryConfig)
    assert.equal(
      found.map(({ pointer }) => pointer),
      pointers,
    )
  })

test.run()
