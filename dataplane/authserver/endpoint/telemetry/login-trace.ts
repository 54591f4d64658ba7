import { decodeJwt } from 'jose'
import { LOGIN_CLAIM } from '../../../upstream-tokens/index.ts'
import type { Front, FrontContext } from '../front.ts'

/** The trace context of a request, where that has a span: what a login that it begins is known by in traces. */
export const traceOf = ({ var: { request } }: FrontContext): string | undefined =>
  request.observation?.isSampled === true ? request.observation.trace?.traceparent : undefined

/** Has the span of a request, where it has one, refer to the request that began the login with this name. */
export const linkToLogin = (front: Front, c: FrontContext, login: string): Promise<void> =>
  linkTo(front, c, async () => login)

/** The same for a request that is answered with an access token: by the login that this names, where it comes from one. */
export const linkByToken = (front: Front, c: FrontContext, answer: Response): Promise<void> =>
  linkTo(front, c, async () => {
    if (!answer.ok) return undefined
    const { access_token: token } = (await answer.clone().json()) as { readonly access_token: string }
    return decodeJwt(token)[LOGIN_CLAIM]
  })

async function linkTo(
  { grants, log }: Front,
  { var: { request } }: FrontContext,
  find: () => Promise<unknown>,
): Promise<void> {
  const { observation } = request
  if (observation?.isSampled !== true) return
  try {
    const login = await find()
    if (typeof login === 'string') observation.link(await grants.traceOf(login))
  } catch (error) {
    // What is answered stands: a trace is no reason to fail.
    log().debug({ err: error }, 'a request is not linked to its login')
  }
}
