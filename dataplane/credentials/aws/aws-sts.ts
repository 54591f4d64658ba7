import { decodeJwt } from 'jose'
import type { AwsStsConfig } from '../../config/credential.ts'
import { authorityOf, claimsDigest } from '../authority.ts'
import type { Strategy, Subject } from '../credential.ts'
import { storedSource } from '../stored-source.ts'
import type { UpstreamTokens } from '../upstream-tokens.ts'
import { type AssumeRole, createAssumeRole } from './assume-role.ts'
import { roleChooser } from './role.ts'
import { awsSigner } from './sign.ts'

const DURATION_S = 3600

/** Of a region; those of China are under a domain of their own. */
const regional = (region: string) => `https://sts.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}/`

/**
 * Temporary credentials of an AWS role for each caller, with which each request is signed. The token that goes to AWS is
 * the caller's own verified token or, with `subjectProviderName`, the ID token of that provider; its claims choose the
 * role.
 */
export function awsSts(config: AwsStsConfig, upstreamTokens: UpstreamTokens): Strategy {
  const { region, service = 'aws-mcp', subjectProviderName, sessionDuration = DURATION_S } = config
  const chooseRole = roleChooser(config)
  const assumeRole: AssumeRole = createAssumeRole(config.stsUrl ?? regional(region), sessionDuration)

  async function identityOf({ token, claims, ...caller }: Subject) {
    if (subjectProviderName === undefined) return { token, claims }
    const idToken = await upstreamTokens.idToken(caller, subjectProviderName)
    // It was verified at login.
    return { token: idToken, claims: decodeJwt(idToken) as Readonly<Record<string, unknown>> }
  }

  return {
    key: JSON.stringify(['awsSts', config]),
    isOfLogin: subjectProviderName !== undefined,
    source: storedSource(upstreamTokens, subjectProviderName, 'idToken'),
    signs: true,
    variant({ claims }) {
      if (subjectProviderName !== undefined) return ''
      try {
        return JSON.stringify([chooseRole(claims), authorityOf(claims)])
      } catch {
        return 'none'
      }
    },
    digest: ({ claims }) => (subjectProviderName === undefined ? claimsDigest(claims) : ''),
    async obtain(subject) {
      const { token, claims } = await identityOf(subject)
      const credentials = await assumeRole(chooseRole(claims), token)
      return { headers: [], expiresAt: credentials.expiresAt, sign: await awsSigner(credentials, { region, service }) }
    },
    close: () => assumeRole.close(),
  }
}
