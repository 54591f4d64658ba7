import { isLoopback } from '../../dataplane/config/check/url.ts'
import { createGuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { error, type Finding, ok, shown, warning } from './finding.ts'
import { objectIn, unreachable } from './metadata.ts'
import type { Endpoints, Subject } from './subject.ts'

interface Options {
  readonly caBundleFile?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
}

type Answer = Awaited<ReturnType<ReturnType<typeof createGuardedFetch>>>

interface Question {
  readonly check: string
  readonly url: string | undefined
  readonly body?: string
  judge(answer: Answer, url: string): Finding
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const WRONG_PLACE = 'take the address from the provider’s documentation; redirects are never followed'

/** Checks that the endpoints of a provider exist and answer as such. No request holds a secret. */
export async function checkEndpoints(endpoints: Endpoints, subject: Subject, options: Options): Promise<Finding[]> {
  const { authorization, token, userInfo, identifiesByToken } = endpoints
  const questions: readonly Question[] = [
    { check: 'login page', url: authorization, judge: judgeLoginPage },
    { check: 'token', url: token, body: 'grant_type=authorization_code', judge: judgeToken },
    ...(userInfo === undefined
      ? []
      : [
          {
            check: 'user info',
            url: userInfo.url,
            ...(userInfo.method === 'POST' && { body: '' }),
            judge: judgeUserInfo,
          },
        ]),
  ]
  const findings = await Promise.all(questions.map((question) => ask(question, subject, options)))
  if (userInfo !== undefined || identifiesByToken) return findings
  const fix = 'set oauth2Config.userInfo or identityFromToken; otherwise users are asked for consent at each login'
  return [...findings, warning('user', 'no provider says who users are, so each login counts as a new user', fix)]
}

async function ask({ check, url: text, body, judge }: Question, subject: Subject, options: Options): Promise<Finding> {
  const url = text === undefined ? null : URL.parse(text)
  if (url === null || text === undefined) return error(check, `its address is ${shown(text)}`, 'write an https URL')
  if (url.protocol !== 'https:' && !isLoopback(url) && !subject.insecureAllowHTTP)
    return error(check, `it is at ${url.protocol}//${url.host}, which is not https`, 'serve it over https')
  const fetch = createGuardedFetch({
    caBundleFile: options.caBundleFile,
    allowPrivateIP: subject.allowPrivateIP || options.allowPrivateIP,
    allowLoopback: isLoopback(url),
  })
  try {
    return judge(await fetch(text, body === undefined ? {} : FORM, body), text)
  } catch (failure) {
    return unreachable(text, failure as Error, subject, check)
  } finally {
    await fetch.close()
  }
}

const isMissing = ({ status }: Answer) => status === 404 || status === 405 || status === 410
const answers = ({ status }: Answer, url: string) => `${url} answers ${status}`

const judgeLoginPage = (answer: Answer, url: string): Finding =>
  isMissing(answer) || answer.status >= 500
    ? warning('login page', answers(answer, url), 'open it in a browser: users are sent there')
    : ok('login page', `${url} answers`)

/** Judges the token endpoint: it must refuse a request without a code, by an OAuth error or any other text. */
function judgeToken(answer: Answer, url: string): Finding {
  const { status, text } = answer
  if (isMissing(answer) || (status >= 300 && status < 400)) return error('token', answers(answer, url), WRONG_PLACE)
  if (status >= 500) return warning('token', answers(answer, url), 'check the provider’s health')
  const isOAuth = typeof objectIn(text)?.['error'] === 'string'
  return ok('token', `${url} ${isOAuth ? 'speaks OAuth 2' : 'answers'}`)
}

/** Judges the user info endpoint: it must refuse a request without a token, which identifies no user. */
function judgeUserInfo(answer: Answer, url: string): Finding {
  const { status } = answer
  if (isMissing(answer) || (status >= 300 && status < 400)) return error('user info', answers(answer, url), WRONG_PLACE)
  if (status >= 500) return warning('user info', answers(answer, url), 'check the provider’s health')
  if (status >= 400) return ok('user info', `${url} wants a token`)
  const fix = 'check that it answers with the user of the token'
  return warning('user info', `${url} answers ${status} without a token`, fix)
}
