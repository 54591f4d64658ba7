import { servedAuthz } from '../../crds/shared/auth/authz.ts'
import { asFile } from '../../crds/shared/file-form.ts'
import type { Static } from '../../crds/shared/schema.ts'

/** What callers may do: Cedar policies. */
export const authz = asFile(servedAuthz)

export type AuthzConfig = Static<typeof authz>
