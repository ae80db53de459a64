export const en = {
  title: 'This did not work',
  unchanged: 'Nothing was changed.',
  developers: 'For developers',
  requestId: 'Request',
  home: 'To your account',
  known: {
    request_expired:
      'This sign-in request is no longer valid: it was already completed, is older than an hour, or began in another browser. Go back to the app and start again.',
    form_refused: 'This form did not come from our own page, or was open too long. Go back, load the page again and send the form once more.',
    form_unreadable: 'The form contains characters that we cannot read. Go back, remove them and send the form again.',
    not_found: 'This page does not exist, or you may not see it. Check the address, or go back to the page with the link.',
    MailboxNotLocal: 'The mailbox is shown only on the machine that runs this service. Open it there, at localhost.',
    RouteNotFound: 'There is no page at this address. Check the address, or go back to the page with the link.',
    NotPermitted: 'You are not allowed to do this. Ask an owner to give you a role that allows it.',
    ServiceUnavailable: 'This service cannot answer at the moment. Wait a little and load the page again.',
    InternalServerError: 'Something broke on our side. Load the page again. If the problem stays, tell the seller the number of this request.',
    TooManyRequests: 'Too many tries in a short time. Wait a minute and try again.',
    invalid_client: 'We do not know the app that sent you here, so we did not send you back to it. Nothing was shared with it.',
    invalid_redirect_uri:
      'The app that sent you here wants to receive you at an address that it has not registered. We did not send you there, because the address may not belong to the app.',
    invalid_request: 'The app that sent you here made a request that we cannot answer. Go back to the app and try again.',
  } as Record<string, string>,
  other: 'This request is not valid. Go back and try again.',
  retrying: (seconds: number) => (seconds === 1 ? 'This page tries again by itself in a second.' : `This page tries again by itself in ${seconds} seconds.`),
}
