// A button beside each call copies it; without a script the page reads as well.
if (navigator.clipboard) for (const call of document.querySelectorAll(".rfsize pre, .rfsize kbd")) {
  const button = document.createElement("button"), text = call.textContent;
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  call.after(button);
}
