import { createHash, createHmac, randomBytes } from 'node:crypto'
import { SignatureV4 } from '@smithy/signature-v4'
import { secret } from '../../secrets/watch.ts'
import type { RawRequest } from '../servers/raw-server.ts'
import { startTokenEndpoint, type TestTokenEndpoint } from './token-endpoint.ts'

/** Credentials that the endpoint has issued, by access key. */
interface IssuedCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken: string
  readonly form: Readonly<Record<string, string>>
}

/** An STS endpoint for AssumeRoleWithWebIdentity that records its requests. */
export interface StsEndpoint extends TestTokenEndpoint {
  readonly issued: Map<string, IssuedCredentials>
  lifeSeconds: number
  /** Returns the credentials that signed a request; undefined if they were not issued here. */
  signerOf(
    request: RawRequest,
    scope: { readonly region: string; readonly service: string },
  ): Promise<IssuedCredentials | undefined>
}

const buildAnswer = (
  { accessKeyId, secretAccessKey, sessionToken }: IssuedCredentials,
  end: Date,
) => `<?xml version="1.0"?>
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>someone</SubjectFromWebIdentityToken>
    <Credentials>
      <AccessKeyId>${accessKeyId}</AccessKeyId>
      <SecretAccessKey>${secretAccessKey}</SecretAccessKey>
      <SessionToken>${sessionToken}</SessionToken>
      <Expiration>${end.toISOString()}</Expiration>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
  <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>`

export async function startStsEndpoint(): Promise<StsEndpoint> {
  const endpoint = (await startTokenEndpoint()) as StsEndpoint
  const issued = new Map<string, IssuedCredentials>()
  endpoint.answer = ({ form }, response) => {
    const one = {
      accessKeyId: `ASIA${randomBytes(8).toString('hex').toUpperCase()}`,
      secretAccessKey: secret(randomBytes(30).toString('base64')),
      sessionToken: secret(randomBytes(300).toString('base64')),
      form,
    }
    issued.set(one.accessKeyId, one)
    response.writeHead(200, { 'content-type': 'text/xml' })
    response.end(buildAnswer(one, new Date(Date.now() + endpoint.lifeSeconds * 1000)))
  }
  return Object.assign(endpoint, {
    issued,
    lifeSeconds: 3600,
    async signerOf({ method, headers, body, path }: RawRequest, scope: { region: string; service: string }) {
      const { authorization = '' } = headers
      const one = issued.get(/Credential=(\w+)\//.exec(authorization)?.[1] ?? '')
      const date = String(headers['x-amz-date'] ?? '')
      if (one === undefined || headers['x-amz-security-token'] !== one.sessionToken) return undefined
      const [, ...names] =
        /SignedHeaders=([^,]+)/
          .exec(authorization)?.[1]
          ?.split(';')
          .map((name) => name) ?? []
      const covered = ['host', ...names, /SignedHeaders=([^;,]+)/.exec(authorization)?.[1] ?? '']
      const url = new URL(`http://${headers.host}${path}`)
      const signed = await new SignatureV4({ ...scope, credentials: one, sha256: Sha256 as never }).sign(
        {
          method,
          protocol: url.protocol,
          hostname: url.hostname,
          path: url.pathname,
          query: Object.fromEntries([...url.searchParams.keys()].map((name) => [name, url.searchParams.getAll(name)])),
          headers: Object.fromEntries(
            covered.filter((name) => headers[name] !== undefined).map((name) => [name, String(headers[name])]),
          ),
          body,
        },
        {
          signingDate: new Date(date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z')),
          unsignableHeaders: new Set(['x-amz-content-sha256']),
        },
      )
      const readSignature = (text: string) => /Signature=(\w+)/.exec(text)?.[1]
      return readSignature(signed.headers['authorization'] ?? '') === readSignature(authorization) ? one : undefined
    },
  })
}

/** SHA-256 in the form that the AWS SDK expects. */
class Sha256 {
  readonly #hash: ReturnType<typeof createHash> | ReturnType<typeof createHmac>
  constructor(key?: string | Uint8Array) {
    this.#hash = key === undefined ? createHash('sha256') : createHmac('sha256', key)
  }
  update(data: string | Uint8Array): void {
    this.#hash.update(data)
  }
  digest(): Promise<Uint8Array> {
    return Promise.resolve(new Uint8Array(this.#hash.digest()))
  }
}
