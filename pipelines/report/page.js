"use strict";
// A link to a node opens its details; on paper everything is open.
const open = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.querySelector("summary").focus();
  }
};
addEventListener("hashchange", open);
open();
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((item) => { item.open = true; });
});
addEventListener("afterprint", () => closed.forEach((item) => { item.open = false; }));
