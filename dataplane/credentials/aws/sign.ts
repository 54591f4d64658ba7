import type { SignRequest } from '../credential.ts'
import type { AwsCredentials } from './assume-role.ts'

interface SigningScope {
  readonly region: string
  readonly service: string
}

/** Header names that the signature covers, besides the host and those that it brings. Proxies may change the others. */
const CONTENT_TYPE = 'content-type'

/** Signs requests with AWS Signature Version 4, which covers method, host, path, query, body and time. */
export async function awsSigner(credentials: AwsCredentials, { region, service }: SigningScope): Promise<SignRequest> {
  // Loaded by gateways that need it.
  const { default: aws4 } = await import('aws4')
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
  return function signRequest({ method, host, path, headers, body }) {
    const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === CONTENT_TYPE)
    const signed = aws4.sign(
      {
        method,
        host,
        path,
        region,
        service,
        body: body ?? '',
        headers: { Host: host, ...(at < 0 ? {} : { [CONTENT_TYPE]: headers[at + 1] }) },
        // Ours is the one that the connection writes.
        extraHeadersToIgnore: { 'content-length': true },
      } as Parameters<typeof aws4.sign>[0],
      { accessKeyId, secretAccessKey, sessionToken },
    )
    const { Authorization, 'X-Amz-Date': date } = signed.headers as Record<string, string>
    return ['authorization', Authorization ?? '', 'x-amz-date', date ?? '', 'x-amz-security-token', sessionToken]
  }
}
