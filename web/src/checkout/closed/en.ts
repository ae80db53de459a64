export const en = {
  renewable: 'A checkout is open for a day. Nothing was charged. You can open it again, with the prices of today and everything that you filled in.',
  renew: 'Open it again',
  expired: { title: 'This checkout has expired', text: 'A checkout is open for a day. Nothing was charged. Go back to the shop and start again.' },
  link_needed: {
    title: 'Please open the link again',
    text: 'This checkout was opened in another browser, or too long ago. Open the link that you received once more. Nothing is lost.',
  },
  over: {
    title: 'This checkout is closed',
    text: 'A paid checkout closes after a few minutes. You find your purchase in the shop’s customer portal and in the e-mail that we sent you.',
  },
  ended: {
    title: 'This offer has ended',
    text: 'The seller no longer offers it with this link. Nothing was charged. The seller can tell you what is for sale now.',
  },
  unknown: { title: 'There is no such checkout', text: 'The link may be incomplete. Copy the whole link, or go back to the shop and start again.' },
  not_sold: { title: 'This is no longer sold', text: 'The seller has taken it off sale. Nothing was charged.' },
}
