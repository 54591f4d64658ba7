import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { readClusterKeys } from '../../../dataplane/identity/issuer-keys.ts'
import type { GuardedFetch } from '../../../dataplane/net/guarded-fetch.ts'

const cluster = { apiServer: 'https://kubernetes.default.svc', tokenFile: '/none' }

for (const jwksUrl of [
  'https://keys.example/openid/v1/jwks',
  'http://kubernetes.default.svc/openid/v1/jwks',
  'https://kubernetes.default.svc:8443/openid/v1/jwks',
  'https://kubernetes.default.svc@keys.example/',
])
  test(`the cluster’s token does not go to ${jwksUrl}`, async () => {
    const urls: string[] = []
    const fetch = async (url: string) => {
      urls.push(url)
      return { status: 200, text: '{"keys":[]}' }
    }
    const error = await readClusterKeys(
      { cluster, issuer: 'https://issuer.example', jwksUrl },
      fetch as unknown as GuardedFetch,
      () => 'of-the-pod',
    ).catch((thrown: Error) => thrown)
    assert.match((error as Error).message, /is not at the API server https:\/\/kubernetes\.default\.svc$/)
    assert.equal(urls, [])
  })

test.run()
